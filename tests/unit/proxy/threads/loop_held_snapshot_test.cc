// Tests of snapshots whose removals are held because they would remove too many objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/wait.h"
#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using Mark = Batch::Mark;
using ::svcmap::testing::WaitUntil;
using ::testing::HasSubstr;

constexpr int kServices = 20;

class HeldSnapshotTest : public LoopTest {
 protected:
  HeldSnapshotTest() { options_.hold_removals = 50; }

  // The Services `first` to `last` with one endpoint each.
  static std::vector<Change> Services(int first, int last, int endpoints = 1) {
    return ManyNumbered(first, last - first + 1, endpoints);
  }
  BatchResult Snapshot(std::vector<Change> changes, bool accept_removals = false) {
    Await(Submit({}, Mark::kSnapshotBegin));
    Await(Submit(std::move(changes)));
    return Await(SubmitBatch({.mark = Mark::kSnapshotEnd,
                              .accept_removals = accept_removals,
                              .on_snapshot_ended = [this] { ++ended_; }}));
  }
  void StartWithServices() {
    Start();
    EXPECT_EQ(Snapshot(Services(1, kServices)).held, "");
    ASSERT_EQ(loop_->status().services, size_t{kServices});
    ended_ = 0;
  }
  size_t StoredServices() { return StatusAfterTurn(*loop_).services; }
  std::string HeldLoss() {
    const auto held = StatusAfterTurn(*loop_).held_snapshot;
    return held ? held->loss : "";
  }

  int ended_ = 0;  // Number of snapshots that have ended.
};

TEST_F(HeldSnapshotTest, AnEmptySnapshotRemovesNothing) {
  StartWithServices();
  const Lines before = Stored();
  const BatchResult result = Snapshot({});
  EXPECT_EQ(result.outcome, Outcome::kPending);
  EXPECT_EQ(result.held,
            "20 of 20 Services, 20 of 20 EndpointSlices, 20 of 20 Services with endpoints");
  EXPECT_FALSE(result.token);
  EXPECT_EQ(HeldLoss(), result.held);
  EXPECT_EQ(Stored(), before);
  EXPECT_EQ(ended_, 0);
}

// Half is too much, one object fewer is not.
TEST_F(HeldSnapshotTest, TheBoundIsAShareOfTheObjectsBefore) {
  StartWithServices();
  EXPECT_THAT(Snapshot(Services(11, 30)).held, HasSubstr("10 of 20 Services, "));
  EXPECT_EQ(Snapshot(Services(10, 30)).held, "");
  EXPECT_EQ(StoredServices(), 21u);
}

TEST_F(HeldSnapshotTest, DryRunPredictsTheBound) {
  StartWithServices();
  const auto held_by = [&](int removed) {
    std::vector<Change> changes;
    for (Change& change : Services(1, removed)) {
      changes.push_back({.kind = change.kind, .key = change.key});
    }
    return loop_->Try({.changes = changes, .on_accepted = [](const auto&) {}})->held;
  };
  EXPECT_EQ(held_by(10),
            "10 of 20 Services, 10 of 20 EndpointSlices, 10 of 20 Services with endpoints");
  EXPECT_EQ(held_by(9), "");
  EXPECT_EQ(StoredServices(), size_t{kServices});
}

TEST_F(HeldSnapshotTest, FewObjectsAreNotBounded) {
  Start();
  Snapshot(Services(1, kServices - 1));
  EXPECT_EQ(Snapshot({}).held, "");
  EXPECT_EQ(StoredServices(), 0u);
}

// A Service whose slices have no usable endpoints counts like a Service whose slices are missing.
TEST_F(HeldSnapshotTest, ServicesThatLoseTheirEndpointsCount) {
  StartWithServices();
  const Lines before = Stored();
  EXPECT_EQ(Snapshot(Services(1, kServices, 0)).held, "20 of 20 Services with endpoints");
  EXPECT_EQ(Stored(), before);
  EXPECT_EQ(Await(Submit({}, Mark::kAcceptSnapshot)).outcome, Outcome::kCommitted);
  EXPECT_NE(Stored(), before);
}

// The deferred changes stand for deltas and for rejected versions.
TEST_F(HeldSnapshotTest, ADeferredChangeDoesNotApplyAWaitingChange) {
  StartWithServices();
  const Lines before = Stored();
  Snapshot(Services(1, kServices, 0));
  const Change empty = Numbered(1, 0)[1];
  const auto defer = [&](std::optional<Change> change) {
    const auto make = [&empty, change](const Store& store) {
      EXPECT_EQ(*store.FindLatestSlice(empty.key), empty.slice->message);
      return DeferredChange::Result{.change = change, .findings = {}};
    };
    Batch batch;
    batch.deferred.push_back({Kind::kEndpointSlice, empty.key, make});
    return Await(SubmitBatch(std::move(batch))).outcome;
  };
  EXPECT_EQ(defer(std::nullopt), Outcome::kUnchanged);
  EXPECT_EQ(defer(empty), Outcome::kUnchanged);
  EXPECT_EQ(Stored(), before);
  EXPECT_EQ(HeldLoss(), "20 of 20 Services with endpoints");
  EXPECT_EQ(defer(Numbered(1, 2)[1]), Outcome::kCommitted);
  EXPECT_NE(Stored(), before);
  EXPECT_EQ(HeldLoss(), "19 of 20 Services with endpoints");
}

TEST_F(HeldSnapshotTest, AVersionOverALimitIsReducedFromTheWaitingVersion) {
  options_.limits.endpoints_per_service = 1;
  StartWithServices();
  const Lines before = Stored();
  Snapshot(Services(1, kServices, 0));
  Batch batch;
  batch.changes = Numbered(1, 2);
  batch.departures = [](const std::string& held, const EndpointSlice&) {
    EXPECT_EQ(held, Numbered(1, 0)[1].slice->message);
    return Numbered(1, 0)[1].slice;
  };
  EXPECT_EQ(Await(SubmitBatch(std::move(batch))).outcome, Outcome::kUnchanged);
  EXPECT_EQ(Stored(), before);
}

// A controller whose cache was empty at its start sends the missing objects later.
TEST_F(HeldSnapshotTest, LaterChangesTakeEffectAndEndTheSnapshotIfTheyListEnough) {
  StartWithServices();
  Snapshot({});
  EXPECT_EQ(Await(Submit({Web()})).outcome, Outcome::kCommitted);
  EXPECT_EQ(HeldLoss(),
            "20 of 20 Services, 20 of 20 EndpointSlices, 20 of 20 Services with endpoints");
  const BatchResult result = Await(Submit(Services(1, 19)));
  EXPECT_EQ(result.removed, (KindCounts{1, 1, 0, 0}));
  EXPECT_TRUE(result.token);
  EXPECT_EQ(HeldLoss(), "");
  EXPECT_EQ(StoredServices(), 20u);
  EXPECT_EQ(ended_, 1);
}

// Otherwise, a controller that reconnects often enough would remove everything.
TEST_F(HeldSnapshotTest, RepeatedSnapshotsDoNotRaiseTheBase) {
  StartWithServices();
  EXPECT_NE(Snapshot(Services(101, 150)).held, "");
  loop_->StartSession(std::nullopt, [](auto) {});
  EXPECT_EQ(HeldLoss(), "");
  EXPECT_THAT(Snapshot(Services(101, 150)).held, HasSubstr("20 of 20 Services, "));
  // The previous controller connects again.
  EXPECT_EQ(Snapshot(Services(1, kServices)).held, "");
  EXPECT_EQ(StoredServices(), size_t{kServices});
}

TEST_F(HeldSnapshotTest, RepairsContinueWhileASnapshotIsHeld) {
  StartWithServices();
  const Lines before = Stored();
  Snapshot({});
  loop_->Call([&](Reconciler&) { EXPECT_TRUE(kernel_.ForeignDropTable(Family::kIpv4)); });
  loop_->Repair({.table = true});
  EXPECT_TRUE(WaitUntil([&] { return loop_->status().repairs == 1 && Stored() == before; }));
}

TEST_F(HeldSnapshotTest, PreviousRulesStayInEffectIfTheSnapshotHasFewerServices) {
  StartWithServices();
  loop_->Stop();
  const uint32_t generation = *kernel_.Generation();
  Reconciler next(kernel_, {.node_name = "n1"});
  ASSERT_EQ(next.Adopt().value(), Received::kPreviousRules);
  Loop loop(next, options_);
  loop.Start(Received::kPreviousRules);
  const auto submit = [&](std::vector<Change> changes, Mark mark) {
    std::promise<BatchResult> promise;
    loop.Submit({.mark = mark, .changes = std::move(changes), .done = [&](BatchResult result) {
                   promise.set_value(std::move(result));
                 }});
    return promise.get_future().get();
  };
  submit(Services(1, 10), Mark::kSnapshotBegin);
  EXPECT_EQ(submit({}, Mark::kSnapshotEnd).held,
            "10 of 20 Services with endpoints in the rules of the previous run");
  EXPECT_EQ(*kernel_.Generation(), generation);
  EXPECT_EQ(loop.status().phase, Phase::kHolding);
  EXPECT_EQ(submit(Services(11, 11), Mark::kNone).outcome, Outcome::kCommitted);
  EXPECT_EQ(loop.status().services, 11u);
}

}  // namespace
}  // namespace svcmap::proxy::test
