// Keeps the mirror in sync with the resources of the API server: list, then watch, then list again
// if the server requires it. reflector.h describes the order of the requests.
//
// Requests are not rate-limited: each of the four resources has at most one request at a time, and
// failed requests are retried with backoff. The same thread and connection send the writes
// (api/kube/write).
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/kube/http/http_client.h"
#include "api/kube/watch/reflector.h"
#include "api/kube/write/object_writer.h"
#include "api/source/mirror.h"

namespace svcmap::kube {

struct WriteOptions {
  std::string startup_taint;  // Key of the taint that is removed. If empty, no taint is removed.
  bool events = false;        // Create Events for findings.
};

// Runs all requests in one thread.
class ListWatches {
 public:
  ListWatches(const ApiServer& server, const std::string& user_agent,
              const ListWatchOptions& options, Mirror& mirror, const WriteOptions& writes = {});
  ~ListWatches();  // Cancels the requests and joins the thread.

  using Facts = std::array<ListWatchFacts, kResources.size()>;  // In the order of kResources.
  Facts facts() const;                                          // Thread-safe.

  // svcmapd has programmed the Services for the first time. Thread-safe.
  void ServicesProgrammed();
  void Report(const source::Finding& finding);  // Thread-safe.
  std::string startup_taint_error() const;      // "" without an error. Thread-safe.

 private:
  class ListWatch;
  class ObjectWrite;
  void Run();

  HttpClient client_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Facts facts_;
  std::optional<StartupTaint> taint_;
  std::optional<EventWriter> events_;

  std::vector<std::unique_ptr<ListWatch>> watches_;
  std::vector<std::unique_ptr<ObjectWrite>> writes_;
  std::thread thread_;  // Last, because the thread uses all members above.
};

}  // namespace svcmap::kube
