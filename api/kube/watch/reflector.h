// Chooses the next request to the API server for one resource, based on the previous results, and
// updates the mirror. Contains no clock, thread or connection.
//
//     [list] --all pages--> [watch] --ended, connection lost, 429, 503 ...--> [watch] from the last
//       ^                      |                                              known version
//       +------ version too old (410), any other error
//
// Resource versions: a list must not be older than the stored objects, because objects that the
// list does not contain are removed. The cache of an API server may lag, so resourceVersion=0 (any
// cached version, which client-go uses for its first list) is not usable. This includes the first
// list: the mirror is still empty, but svcmapd may have newer state from a previous run of
// svcmap-kube.
// - The first list has no resourceVersion and is paged. The API server reads the newest state from
//   etcd, or from a cache that it has verified to be up to date.
// - A later list passes the last known version. The response has this version or a newer version,
//   and the API server may answer from its cache.
// - If the last known version is not available (410, or "Too large resource version" from a lagging
//   server), the list requests the newest state in pages again.
// - If a page expires before the last page was read, the list requests the newest state without
//   pages.
// Versions are opaque strings and are never compared.
#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "api/kube/http/http_client.h"
#include "api/kube/wire/decode.h"
#include "api/kube/wire/resource.h"
#include "api/source/mirror.h"
#include "nft/base/backoff.h"

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

// If the server does not know ServiceCIDRs, Reflector stores an empty list and requests a list
// again every five minutes. Several consecutive 404 responses for v1 and v1beta1 mean that the
// server does not know ServiceCIDRs. Kubernetes before 1.31 has no ServiceCIDRs. Kubernetes 1.31
// and 1.32 provide v1beta1 only if an administrator enables it. In later versions, the API can be
// disabled.
//
// Not thread-safe.
class Reflector {
 public:
  using Clock = std::chrono::steady_clock;

  struct Request {
    bool watch = false;  // True if the request is a watch, false if it is a list.
    HttpRequest request;
    // Only for lists. The caller stops reading a response that exceeds one of these limits and
    // calls TooLarge.
    uint64_t max_bytes = 0;
    uint64_t max_items = 0;
  };

  Reflector(Resource resource, ListWatchOptions options, Mirror& mirror,
            Backoff::Random random = Backoff::SeededRandom());

  // ---- The next request. It must not be sent earlier than not_before() ----

  Clock::time_point not_before() const { return not_before_; }
  Request Next(Clock::time_point now);

  // ---- Results. A list ends with one call of Page, TooLarge, Rejected, Failed or Unreadable. A
  // watch consists of any number of calls of Event, followed by one call of WatchEnded, Rejected,
  // Failed or Unreadable ----

  // Data of a successful response has arrived.
  void Contact(Clock::time_point now) { facts_.last_contact = now; }
  void Page(ListPage page, Clock::time_point now, uint64_t bytes = 0);
  void TooLarge(Clock::time_point now);  // The response exceeds a limit of Request.
  // Returns false if the watch is over. The caller then closes the watch and reports no further
  // result.
  bool Event(const WatchEvent& event, Clock::time_point now);
  void WatchEnded(Clock::time_point now);  // The server has closed the watch without an error.
  // The response has an HTTP error status.
  void Rejected(int http_status, std::chrono::seconds retry_after, const ApiStatus& status,
                Clock::time_point now);
  // No response was received, or only a part of it.
  void Failed(const absl::Status& error, Clock::time_point now);
  // The response has the expected content type but cannot be decoded.
  void Unreadable(const absl::Status& error, Clock::time_point now);

  const ListWatchFacts& facts() const { return facts_; }

 private:
  // Required version of a list.
  enum class From : uint8_t {
    kNotOlder,      // version_ or a newer version.
    kNewest,        // The newest version, in pages.
    kNewestUnpaged  // The newest version without pages, because a paged list has failed.
  };

  std::string ListPath() const;
  void ListAgain(From from);
  void Listed(Clock::time_point now);
  bool InPages() const { return from_ == From::kNewest; }
  // Handles a server that does not know ServiceCIDRs: stores an empty list.
  void Missing(Clock::time_point now);
  void Expired(const std::string& why, From next, Clock::time_point now);
  bool WithoutFieldSelector(const std::string& why, Clock::time_point now);
  bool WithBetaServiceCidrs(Clock::time_point now);
  // Counts and logs a failure and sets the time of the next request.
  void Fail(const std::string& why, Clock::time_point now, std::chrono::seconds retry_after = {});
  void Succeeded(Clock::time_point now);
  // Logs a problem of the current request.
  void Log(spdlog::level::level_enum level, const std::string& event, const std::string& why) const;

  const Resource resource_;
  ListWatchOptions options_;  // Requests that the server rejects change page size and selection.
  Mirror& mirror_;
  Backoff backoff_;

  bool watching_ = false;
  From from_ = From::kNewest;
  std::string version_;  // Last known version, from a list, an event or a bookmark.
  Clock::time_point not_before_;
  Clock::time_point asked_;      // When the current request was created.
  bool brought_object_ = false;  // True if the current watch has delivered an object.
  bool bookmarks_come_ = false;  // True if the server is known to send bookmarks.

  // The pages of an incomplete list.
  std::vector<Item> items_;
  std::string list_version_;
  std::string continue_token_;
  absl::flat_hash_set<uint64_t> tokens_;  // Hashes of all continue tokens of this list.
  uint64_t list_cost_ = 0;
  Clock::time_point list_requested_;

  ListWatchFacts facts_;
  uint64_t failures_in_a_row_ = 0;
  Clock::time_point failing_since_;
  int refused_lists_ = 0;  // Consecutive lists that ended with 403 or 404.
  std::string reported_;   // Last logged failure. Empty after a success.
  Clock::time_point reported_at_;
  bool reported_missing_ = false;
};

}  // namespace svcmap::kube
