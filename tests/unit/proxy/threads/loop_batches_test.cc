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
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

// Tests changes that depend on the stored state, and changes that exceed a limit.
class LoopDeferredTest : public LoopTest {
 protected:
  // Returns a deferred change that results in `change`. If `change` is empty, the deferred change
  // is rejected.
  DeferredChange Late(std::optional<Change> change, std::string key = "shop/web-1") {
    const auto make = [change = std::move(change), key](const Store&) {
      DeferredChange::Result made{.change = change, .findings = {}};
      if (!change) {
        made.findings.push_back({.kind = Kind::kEndpointSlice, .key = key, .reason = "is bad"});
      }
      return made;
    };
    return {.kind = Kind::kEndpointSlice, .key = key, .make = make};
  }
  // Submits the batch and waits for the result. Stores the reported findings in found_.
  BatchResult Push(Batch batch) {
    batch.on_accepted = [this](const std::vector<Finding>& findings) {
      found_.clear();
      for (const Finding& finding : findings) found_.push_back(finding.ToString());
    };
    return Await(SubmitBatch(std::move(batch)));
  }
  std::string Message(const std::string& key) {
    std::string message;
    loop_->Call([&](Reconciler& reconciler) {
      const std::string* held = reconciler.store().Stored(Kind::kEndpointSlice, key).message();
      message = held == nullptr ? "none" : *held;
    });
    return message;
  }

  std::vector<std::string> found_;
};

TEST_F(LoopDeferredTest, CountsAsNamedInASnapshotAlsoWhenItIsRejected) {
  Start();
  Push({.changes = {Web(), WebSlice(), ASlice("shop/old", "shop/web")}});
  Push({.mark = Batch::Mark::kSnapshotBegin});
  Push({.deferred = {Late({})}});
  Push({.mark = Batch::Mark::kSnapshotEnd});
  EXPECT_NE(Message("shop/web-1"), "none");
  EXPECT_EQ(Message("shop/old"), "none");
}

TEST_F(LoopDeferredTest, IsTakenWhileAPreviousRunServes) {
  ASSERT_NO_FATAL_FAILURE(StartAfterPreviousRun());
  const std::vector<Change> all = {Web(), WebSlice()};
  EXPECT_EQ(Push({.mark = Batch::Mark::kSnapshotBegin, .changes = all}).outcome, Outcome::kPending);
  EXPECT_EQ(Push({.deferred = {Late(WebSlice().Ready("10.1.0.7"))}}).outcome, Outcome::kPending);
  EXPECT_EQ(Push({.deferred = {Late({})}}).outcome, Outcome::kPending);
  EXPECT_THAT(found_, SizeIs(1));
  EXPECT_EQ(Push({.mark = Batch::Mark::kSnapshotEnd}).outcome, Outcome::kCommitted);
  EXPECT_THAT(Stored(), ::testing::Contains(::testing::HasSubstr("10.1.0.7")));
}

TEST_F(LoopDeferredTest, BatchOfWhichNothingIsTakenIsNoState) {
  Start();
  Push({.deferred = {Late({})}});
  EXPECT_EQ(loop_->status().phase, Phase::kWaiting);
  Push({.deferred = {Late(WebSlice())}});
  EXPECT_EQ(loop_->status().phase, Phase::kServing);
}

TEST_F(LoopDeferredTest, WhatIsOverALimitIsReportedAndCountsAsNamed) {
  options_.limits.endpoints_per_service = 1;
  Start();
  Push({.changes = {Web(), WebSlice().Ready("10.1.0.1")}});
  Push({.mark = Batch::Mark::kSnapshotBegin});
  Push({.changes = {Web(), WebSlice().Ready("10.1.0.1").Ready("10.1.0.2")}});
  EXPECT_THAT(found_, SizeIs(1));
  Push({.deferred = {Late(WebSlice().Ready("10.1.0.1").Ready("10.1.0.3"))}});
  EXPECT_THAT(found_, SizeIs(1));
  EXPECT_EQ(Push({.mark = Batch::Mark::kSnapshotEnd}).outcome, Outcome::kUnchanged);
  EXPECT_EQ(loop_->status().slices, 1u);
}

}  // namespace
}  // namespace svcmap::proxy::test
