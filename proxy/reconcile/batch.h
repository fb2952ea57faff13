// Batches of changes for the reconcile loop, and their results.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct BatchResult {
  enum class Outcome : uint8_t {
    kCommitted,  // The changes are in the kernel.
    kUnchanged,  // The kernel already had the desired state.
    kPending,    // Accepted. The previous run's rules stay in effect until a snapshot ends.
    kFailed,     // Accepted, but the commit failed and is retried, or the loop has stopped.
  };
  Outcome outcome = Outcome::kCommitted;
  uint64_t revision = 0;
  std::chrono::nanoseconds commit_duration{0};  // Duration of the last commit before the answer.
  std::chrono::nanoseconds queue_duration{0};   // From Submit to the start of that commit.
  std::vector<Finding> findings;
  absl::Status error;
  // Number of objects to remove, such as "95 of 100 Services", if the batch ends a snapshot whose
  // removals are held. The outcome is then kPending. Otherwise empty.
  std::string held;
  KindCounts removed = {};  // Number of stored objects that the batch removed.
  // State token of the store after the batch. Absent unless the session's controller has sent a
  // snapshot or offered the matching token, and no out-of-band batch has changed the store since
  // then.
  std::optional<StateToken> token;
};

// A change whose result the loop's thread computes from the last accepted version of the object,
// for example an endpoint delta. A snapshot does not prune this object, even if the result contains
// no change.
struct DeferredChange {
  struct Result {
    std::optional<Change> change;  // Absent if the change was rejected. See `findings`.
    std::vector<Finding> findings;
  };
  Kind kind = Kind::kService;
  std::string key;
  std::function<Result(const Store&)> make;  // Called once, on the loop's thread; must not block.
};

struct Batch {
  enum class Mark : uint8_t {
    kNone,
    kSnapshotBegin,
    kSnapshotEnd,
    kAcceptSnapshot,  // Ends a held snapshot, if there is one.
  };
  Mark mark = Mark::kNone;
  // With kSnapshotEnd: ends the snapshot regardless of the number of objects that it removes.
  bool accept_removals = false;
  std::vector<Change> changes;
  // Rejected objects. A snapshot does not prune their last accepted version.
  std::vector<std::pair<Kind, std::string>> rejected;
  std::vector<DeferredChange> deferred;  // Applied after `changes`.
  // `held` is the message of the stored EndpointSlice. Returns this EndpointSlice without the
  // endpoints that the `rejected` version does not list. Called for EndpointSlices that exceed a
  // limit, so that removed endpoints are not used. May be null.
  std::function<std::shared_ptr<const EndpointSlice>(const std::string& held,
                                                     const EndpointSlice& rejected)>
      departures;
  bool out_of_band = false;  // The batch is not from the session's controller.
  // Time at which the message was received, before its conversion. If absent, Stage::kConvert is
  // not counted.
  std::optional<std::chrono::steady_clock::time_point> received;
  // Called once, on the loop's thread, after the changes are in the store and before `done`. The
  // findings are those of deferred changes and of changes that exceed a limit. Must not block.
  std::function<void(const std::vector<Finding>&)> on_accepted;
  // With kSnapshotEnd: called once, on the loop's thread, when the snapshot ends, which may be long
  // after the batch was answered. Not called if the snapshot is discarded. Must not block.
  std::function<void()> on_snapshot_ended;
  // Called once, on the loop's thread, or on the caller's thread if the loop has stopped. Must not
  // block.
  std::function<void(BatchResult)> done;
};

}  // namespace svcmap::proxy
