// Chooses the next request to etcd, based on the previous results, and updates the mirror
// (docs/fleet.md#consistency-and-operation). Contains no clock, thread or connection.
//
//     [list] -- all pages --> [watch] -- ended, failed, gap, silence --> [check]
//        ^                       ^                                        |   |
//        |                       +------------ nothing missed ------------+   |
//        +--------- other history, compacted, too far behind, gap ------------+
//
// - Saved state: the mirror contains the objects of one revision, and `saved_` its head.
// - Check: reads the newest head, and the head as of the saved revision. If the nonce of the latter
//   differs from the saved nonce, etcd has another history. If the saved revision was compacted or
//   does not exist yet, this cannot be checked. In both cases, all objects are listed.
// - Otherwise, the watch resumes at the saved revision if at most kMaxBehind transactions are
//   missing and no event was lost, because etcd needs much memory for watches that resume far
//   behind.
// - A list is complete if all pages have the revision of the first page. If this revision is
//   compacted meanwhile, the list starts again.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "api/etcd/schema.h"
#include "api/source/mirror.h"
#include "nft/base/backoff.h"
#include "svcmap/etcd/v3/etcd.pb.h"

namespace svcmap::etcd {

using source::Mirror;

struct FollowerOptions {
  std::string prefix;
  std::string node_name;
  // Maximum time without a new head. The writer writes the head every 10 s.
  std::chrono::milliseconds silence{30000};
  // Maximum random delay before a repeated list.
  std::chrono::milliseconds list_delay{10000};
  // Delays after failures (nft/base/backoff.h).
  std::chrono::milliseconds first_retry{800};
  std::chrono::milliseconds last_retry{10000};
  int64_t page_size = 500;  // Objects per page. Pages with only keys have 10 times as many.
};

// Status and counters. Counters start at 0 when the process starts.
struct FollowerFacts {
  bool listed = false;  // True if at least one list was completed.
  int64_t revision = 0;
  Head head;
  uint64_t lists = 0;         // Completed lists, including lists of differences.
  uint64_t watches = 0;       // Started watches.
  uint64_t transactions = 0;  // Received from watches.
  uint64_t failures = 0;      // Failed requests and watches.
  uint64_t gaps = 0;          // Lists because events were lost.
  uint64_t histories = 0;     // Lists because etcd has another history.
  uint64_t expired = 0;       // Lists because the saved revision is not available.
  uint64_t foreign = 0;       // Revisions without a head.
  uint64_t silences = 0;      // Checks because no head was received.
  size_t rejected_keys = 0;   // Keys whose values cannot be used, and unknown keys.
  std::string last_error;     // Empty after a success.
  // When the last new head was received.
  std::chrono::steady_clock::time_point last_head;
};

// Not thread-safe.
class Follower {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr uint64_t kMaxBehind = 100;   // Transactions.
  static constexpr size_t kMaxFindings = 1000;  // Further findings about keys are dropped.
  static constexpr int64_t kStateWatch = 1;     // IDs of the watches.
  static constexpr int64_t kNodeWatch = 2;

  struct Request {
    std::optional<etcdserverpb::TxnRequest> read;  // Absent: a watch.
    std::chrono::milliseconds timeout{0};          // Only for reads.
    std::vector<etcdserverpb::WatchCreateRequest> watches;
  };

  Follower(FollowerOptions options, Mirror& mirror,
           Backoff::Random random = Backoff::SeededRandom());

  // ---- The next request. It must not be sent earlier than not_before() ----

  Clock::time_point not_before() const { return not_before_; }
  Request Next(Clock::time_point now);

  // ---- Results. A read ends with one call of Read or Failed. A watch consists of any number of
  // calls of Event. It ends when Event returns false, or with a call of Silent or Failed ----

  void Read(const etcdserverpb::TxnResponse& response, Clock::time_point now);
  // Returns false if the watch is over. The caller then reports no further result.
  bool Event(const etcdserverpb::WatchResponse& response, Clock::time_point now);
  // Time at which the caller ends a watch with Silent, unless an event moves this time.
  Clock::time_point silence_deadline() const { return heard_ + options_.silence; }
  void Silent(Clock::time_point now);
  // OUT_OF_RANGE means that the revision of the request was compacted or does not exist yet.
  void Failed(const absl::Status& error, Clock::time_point now);
  // Returns true if the caller must close the connection now, so that the next request uses the
  // next endpoint. An open channel would connect again during the delay before the next request.
  bool TakeReconnect() { return std::exchange(reconnect_, false); }

  FollowerFacts facts() const;

 private:
  enum class Step : uint8_t { kCheck, kList, kFetch, kWatch };
  struct Saved {
    int64_t revision = 0;
    Head head;
  };
  struct List {
    bool differences = false;
    int64_t revision = 0;  // 0 before the first page.
    std::string next_key;
    absl::StatusOr<Head> head = absl::NotFoundError("the key does not exist");
    Mirror::Lists items;
    std::vector<std::string> fetch;  // Keys whose values are read after the last page.
    std::vector<std::pair<std::string, std::string>> findings;
    Clock::time_point started;
  };
  using KeyValue = etcdserverpb::KeyValue;

  void Checked(const etcdserverpb::TxnResponse& response, Clock::time_point now);
  void Page(const etcdserverpb::TxnResponse& response, Clock::time_point now);
  void Fetched(const etcdserverpb::TxnResponse& response, Clock::time_point now);
  void ListKey(const KeyValue& pair);
  void ListValue(const KeyValue& pair);
  void Listed(Clock::time_point now);
  void StartList(bool differences, std::chrono::milliseconds delay, Clock::time_point now);
  void Restart();  // The next request is a check, or a list if nothing was listed yet.

  using Events = google::protobuf::RepeatedPtrField<etcdserverpb::Event>;
  bool TakeRevision(const Events& events, int begin, int end, Clock::time_point now);
  // Appends the change of an event, unless the value cannot be used.
  void AddChange(const etcdserverpb::Event& event, std::vector<Mirror::Change>& changes);
  bool Gap(const std::string& why);  // Ends the watch. Always returns false.

  void SetFinding(const std::string& key, const std::string& text);
  void ReplaceFindings(const std::vector<std::pair<std::string, std::string>>& findings);
  void Fail(const std::string& why, Clock::time_point now);
  void Succeeded(Clock::time_point now);

  const FollowerOptions options_;
  const Schema schema_;
  Mirror& mirror_;
  Backoff backoff_;

  Step step_ = Step::kList;
  std::optional<Saved> saved_;  // Absent until the first list is complete.
  int64_t node_revision_ = 0;   // The Node object is known up to this revision.
  bool suspect_ = false;        // The last watch may have lost events.
  bool reconnect_ = false;
  bool reported_silence_ = false;
  Clock::time_point not_before_;
  Clock::time_point heard_;  // Last head of the current watch, or its start.
  List list_;
  etcdserverpb::WatchResponse pending_;  // Events of an incomplete response.

  std::map<std::string, std::string> findings_;  // By key.
  FollowerFacts facts_;
  std::string reported_;  // Last logged failure. Empty after a success.
};

}  // namespace svcmap::etcd
