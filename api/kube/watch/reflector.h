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

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "api/kube/http/http_client.h"
#include "api/kube/watch/list_watch.h"
#include "api/kube/wire/decode.h"
#include "api/kube/wire/resource.h"
#include "api/source/mirror.h"
#include "nft/base/backoff.h"

namespace svcmap::kube {

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
  struct Line {  // A line for the log.
    bool warning = false;
    std::string text;
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
  std::vector<Line> TakeLines();

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
  void ListWithSelection(Clock::time_point now);  // After a change of selection_. Does not wait.
  // Counts and logs a failure and sets the time of the next request.
  void Fail(const std::string& why, Clock::time_point now, std::chrono::seconds retry_after = {});
  void Succeeded(Clock::time_point now);
  std::string Subject() const;  // "watch of services"
  std::string LogText(const std::string& event, const std::string& why) const;

  const Resource resource_;
  const ListWatchOptions options_;
  int64_t page_size_;
  Selection selection_;
  std::string path_;
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
  std::vector<Line> lines_;
  uint64_t failures_in_a_row_ = 0;
  Clock::time_point failing_since_;
  int failures_in_row_ = 0;  // Consecutive lists that ended with 403 or 404.
  std::string reported_;     // Last logged failure. Empty after a success.
  Clock::time_point reported_at_;
  bool reported_missing_ = false;
};

}  // namespace svcmap::kube
