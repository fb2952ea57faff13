// What to ask the API server next about one resource, given what it answered so far. Keeps the
// mirror, and asks nothing itself: no clock, no thread, no connection.
//
//     [list] --all pages--> [watch] --clean end, connection lost, 429, 503 ...--> [watch], from the
//       ^                      |                                                  last version
//       +------ version too old (410), an error that is none of these ------------+
//
// Versions. No list may go back in time: what it does not name is taken away. An API server's cache
// may lag, so what any of them has (resourceVersion=0, with which client-go begins) will not do,
// not even for the first list: this program knows nothing yet, but svcmapd was told more by the one
// before it. So the first list is of the newest state of all (no resourceVersion), in pages: the
// API server reads it from etcd, or from a cache of which it made sure. A later list names the last
// version we know, and gets that or something newer, which a cache may serve. Where that cannot be
// had (410; or a server that lags behind, "too large resource version") it is the newest state
// again, and where the pages of a list expired before the last one was read, that in one piece.
// Versions are opaque: they are never compared.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "api/kube/http/http_client.h"
#include "api/kube/mirror.h"
#include "api/kube/resource.h"
#include "api/kube/watch/list_watch.h"
#include "api/kube/wire/decode.h"
#include "nft/base/backoff.h"

namespace svcmap::kube {

// Not thread-safe.
class Reflector {
 public:
  using Clock = std::chrono::steady_clock;

  struct Request {
    bool watch = false;  // Or list.
    HttpRequest request;
    // Of a list: a larger answer, or one with more objects, is not read to its end.
    uint64_t max_bytes = 0;
    uint64_t max_items = 0;
  };
  struct Line {  // For the log: something is not as it was.
    bool warning = false;
    std::string text;
  };

  Reflector(Resource resource, ListWatchOptions options, Mirror& mirror,
            Backoff::Random random = Backoff::SeededRandom());

  // ---- What to ask, and not before when ----

  Clock::time_point not_before() const { return not_before_; }
  Request Next(Clock::time_point now);

  // ---- What came. A list ends with one of Page, TooLarge, Refused, Failed, Unreadable; a watch is
  // any number of Events, and then WatchEnded, Refused, Failed or Unreadable ----

  void Contact(Clock::time_point now) { facts_.last_contact = now; }  // Bytes of a success.
  void Page(ListPage page, Clock::time_point now, uint64_t bytes = 0);
  void TooLarge(Clock::time_point now);  // Beyond a bound of Ask.
  // False: the watch is over, nothing else of it is wanted, not even its end.
  bool Event(const WatchEvent& event, Clock::time_point now);
  void WatchEnded(Clock::time_point now);  // By the server, as it should be.
  // An answer that is no success.
  void Rejected(int http_status, std::chrono::seconds retry_after, const ApiStatus& status,
                Clock::time_point now);
  // No answer, or not all of it.
  void Failed(const absl::Status& error, Clock::time_point now);
  // An answer of this type that is none.
  void Unreadable(const absl::Status& error, ContentType type, Clock::time_point now);

  const ListWatchFacts& facts() const { return facts_; }
  std::vector<Line> TakeLines();

 private:
  // What a list has to be.
  enum class From : uint8_t {
    kNotOlder,      // Than version_.
    kNewest,        // In pages.
    kNewestUnpaged  // Without pages: those have just expired.
  };

  std::string ListPath() const;
  void ListAgain(From from);
  void Listed(Clock::time_point now);
  bool InPages() const { return from_ == From::kNewest; }
  void Missing(Clock::time_point now);  // The server does not know ServiceCIDRs, and means it.
  void Expired(const std::string& why, From next, Clock::time_point now);
  bool WithoutFieldSelector(const std::string& why, Clock::time_point now);
  void ToJson(const std::string& why, Clock::time_point now);
  // Counts, says and waits.
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
  std::string version_;  // The last one we know: of a list, an event or a bookmark.
  std::string accept_;
  Clock::time_point not_before_;
  Clock::time_point asked_;      // The request that runs.
  bool brought_object_ = false;  // The watch that runs.
  bool bookmarks_come_ = false;  // From this server, as far as we know.

  // A list that is not complete yet.
  std::vector<Item> items_;
  std::string list_version_;
  std::string continue_token_;
  absl::flat_hash_set<uint64_t> tokens_;  // Hashes of all that came with this list.
  uint64_t list_cost_ = 0;
  Clock::time_point list_requested_;

  ListWatchFacts facts_;
  std::vector<Line> lines_;
  uint64_t failures_in_a_row_ = 0;
  Clock::time_point failing_since_;
  int failures_in_row_ = 0;  // Lists in a row with 403 or 404.
  std::string reported_;     // The last failure in the log, and when.
  Clock::time_point reported_at_;
  bool reported_missing_ = false;
};

}  // namespace svcmap::kube
