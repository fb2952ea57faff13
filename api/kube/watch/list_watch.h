// Keeps the mirror in sync with the resources of the API server: list, then watch, then list again
// if the server requires it. reflector.h describes the order of the requests.
//
// Requests are not rate-limited: each of the four resources has at most one request at a time, and
// failed requests are retried with backoff.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/kube/http/http_client.h"
#include "api/kube/watch/reflector.h"
#include "api/source/mirror.h"

namespace svcmap::kube {

// Runs the requests for all resources in one thread.
class ListWatches {
 public:
  ListWatches(const ApiServer& server, const std::string& user_agent,
              const ListWatchOptions& options, Mirror& mirror);
  ~ListWatches();  // Cancels the requests and joins the thread.

  using Facts = std::array<ListWatchFacts, kResources.size()>;  // In the order of kResources.
  Facts facts() const;                                          // Thread-safe.

 private:
  class ListWatch;
  void Run();

  HttpClient client_;
  mutable std::mutex mutex_;
  Facts facts_;
  std::vector<std::unique_ptr<ListWatch>> watches_;
  std::thread thread_;  // Last, because the thread uses all members above.
};

}  // namespace svcmap::kube
