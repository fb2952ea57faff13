// Keeps the mirror equal to one resource of the API server: list, then watch, then list again where
// the server says so. What is asked when, and why, is in course.h.
//
// There is no limit of requests a second: four at a time are all there are, each after the last one
// has ended, and what fails waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "api/kube/http/http_client.h"
#include "api/kube/mirror.h"
#include "api/kube/resource.h"

namespace svcmap::kube {

// Bounds of the memory of a list. Cost is what an answer takes: its bytes after decompression, and
// kItemCost for each object.
struct ListBounds {
  static constexpr uint64_t kItemCost = 512;
  uint64_t page = uint64_t{64} << 20;   // Bytes of one answer.
  uint64_t list = uint64_t{512} << 20;  // Cost of a list in pages.
  // Bytes of a list in one piece: `page`, and this many times what the mirror stores.
  uint64_t times_stored = 8;
};

struct ListWatchOptions {
  Selection selection;
  // What is asked for first; after an answer that is neither protobuf nor usable (406, or DATA_LOSS
  // once), JSON alone.
  std::string accept = "application/vnd.kubernetes.protobuf,application/json";
  // Delays after failures (nft/base/backoff.h). The first delay applies again after a minute
  // without failures.
  std::chrono::milliseconds first_retry{800};
  std::chrono::milliseconds last_retry{30000};
  std::chrono::seconds watch_timeout_min{300};  // timeoutSeconds is random in [min, 2 * min].
  int64_t page_size = 500;                      // Of lists of the newest state.
  ListBounds bounds;
};

// What a watch has been doing, for metrics and /healthz. All since the start.
struct ListWatchFacts {
  uint64_t lists = 0;    // Complete ones.
  uint64_t watches = 0;  // Asked for.
  uint64_t events = 0;   // Bookmarks and errors among them.
  uint64_t failures = 0;
  uint64_t expired = 0;    // 410, of lists and pages, too: listed again. No failure.
  bool listed = false;     // At least once, completely.
  std::string last_error;  // Empty once things go well again.
  std::chrono::steady_clock::time_point last_contact;  // Bytes of an answer that is a success.
};

// A thread of its own. ServiceCIDRs that the server does not know (404 several times in a row:
// Kubernetes before 1.33, as v1 is what is asked for, or the API is off) count as an empty list,
// and are asked for again every five minutes.
class ListWatch {
 public:
  static std::unique_ptr<ListWatch> Start(Resource resource, std::unique_ptr<HttpClient> client,
                                          ListWatchOptions options, Mirror& mirror);
  ~ListWatch();  // Ends the request that runs, and the thread.

  ListWatchFacts facts() const;  // Any thread.

 private:
  class Worker;
  explicit ListWatch(std::unique_ptr<Worker> worker);
  const std::unique_ptr<Worker> worker_;
};

}  // namespace svcmap::kube
