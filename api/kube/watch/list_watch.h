// Keeps the mirror in sync with one resource of the API server: list, then watch, then list again
// if the server requires it. reflector.h describes the order of the requests.
//
// Requests are not rate-limited: each of the four resources has at most one request at a time, and
// failed requests are retried with backoff.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "api/kube/http/http_client.h"
#include "api/kube/wire/resource.h"
#include "api/source/mirror.h"

namespace svcmap::kube {

using source::Mirror;

// Memory bounds of a list. The cost of a response is its size in bytes after decompression plus
// kItemCost for each object.
struct ListBounds {
  static constexpr uint64_t kItemCost = 512;
  uint64_t page = uint64_t{64} << 20;   // Maximum size of one page in bytes.
  uint64_t list = uint64_t{512} << 20;  // Maximum cost of a list in pages.
  // An unpaged list may have `page` bytes plus this many times the cost of the stored objects.
  uint64_t times_stored = 8;
};

struct ListWatchOptions {
  Selection selection;
  // Delays after failures (nft/base/backoff.h). The first delay applies again after a minute
  // without failures.
  std::chrono::milliseconds first_retry{800};
  std::chrono::milliseconds last_retry{30000};
  std::chrono::seconds watch_timeout_min{300};  // timeoutSeconds is random in [min, 2 * min].
  int64_t page_size = 500;                      // Objects per page of a paged list.
  ListBounds bounds;
};

// Statistics of one list-watch since its start, for metrics and /healthz.
struct ListWatchFacts {
  uint64_t lists = 0;    // Completed lists.
  uint64_t watches = 0;  // Started watches.
  uint64_t events = 0;   // Watch events, including bookmarks and errors.
  uint64_t failures = 0;
  // Lists, pages and watches that ended with 410 Gone and caused a new list. Not counted as
  // failures.
  uint64_t expired = 0;
  bool listed = false;     // True if at least one list was completed.
  std::string last_error;  // Empty after a success.
  // When data of a successful response last arrived.
  std::chrono::steady_clock::time_point last_contact;
};

// Runs its own thread. If the server does not know ServiceCIDRs, ListWatch stores an empty list and
// requests a list again every five minutes. Several consecutive 404 responses for v1 and v1beta1
// mean that the server does not know ServiceCIDRs. Kubernetes before 1.31 has no ServiceCIDRs.
// Kubernetes 1.31 and 1.32 provide v1beta1 only if an administrator enables it. In later versions,
// the API can be disabled.
class ListWatch {
 public:
  static std::unique_ptr<ListWatch> Start(Resource resource, std::unique_ptr<HttpClient> client,
                                          ListWatchOptions options, Mirror& mirror);
  ~ListWatch();  // Cancels the current request and joins the thread.

  ListWatchFacts facts() const;  // Thread-safe.

 private:
  class Worker;
  explicit ListWatch(std::unique_ptr<Worker> worker);
  const std::unique_ptr<Worker> worker_;
};

}  // namespace svcmap::kube
