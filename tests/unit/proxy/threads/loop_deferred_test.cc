// Tests changes that depend on the stored state, and changes that exceed a limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

TEST_F(LoopDeferredTest, AreMadeOfWhatTheBatchItselfHasBrought) {
  Start();
  DeferredChange late = Late({});
  late.make = [](const Store& store) {
    EXPECT_NE(store.Stored(Kind::kEndpointSlice, "shop/web-1").message(), nullptr);
    return DeferredChange::Result{.change = WebSlice().Ready("10.1.0.2"), .findings = {}};
  };
  const BatchResult result =
      Push({.changes = {Web(), WebSlice().Ready("10.1.0.1")}, .deferred = {std::move(late)}});
  EXPECT_EQ(result.outcome, Outcome::kCommitted);
  EXPECT_THAT(found_, IsEmpty());
  EXPECT_THAT(Stored(), ::testing::Contains(::testing::HasSubstr("10.1.0.2")));
  ExpectConverged();
}

TEST_F(LoopDeferredTest, RejectedOneIsReportedAndTheRestOfTheBatchIsCommitted) {
  Start();
  const BatchResult result = Push({.changes = {Web()}, .deferred = {Late({})}});
  EXPECT_EQ(result.outcome, Outcome::kCommitted);
  // The loop reported the findings earlier, when it accepted the batch.
  EXPECT_THAT(result.findings, IsEmpty());
  EXPECT_THAT(
      found_,
      ElementsAre("EndpointSlice shop/web-1 rejected: Invalid value: is bad; the previously "
                  "accepted version, if any, stays in effect, without endpoints that are missing "
                  "from the rejected version"));
}

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
