// Packets that still stand in the rules delay the deletion of what they may reach, and nothing
// else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/wait.h"
#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

// AwaitPackets() blocks while the gate `packets_` is closed.
class LoopPacketsTest : public LoopTest {
 protected:
  explicit LoopPacketsTest(std::shared_ptr<Gate> packets = std::make_shared<Gate>())
      : LoopTest({.node_name = "n1", .await_packets = [packets] { packets->Pass(); }}),
        packets_(std::move(packets)) {}
  ~LoopPacketsTest() override { packets_->Open(); }

  bool HasLeftovers() const { return loop_->status().leftovers > 0; }
  // Returns true if Services have exactly the rows that they need, without leftovers.
  bool Converged() {
    bool converged = false;
    EXPECT_TRUE(loop_->Call([&](Reconciler& reconciler) {
      converged = Contents(kernel_) == Additions(DesiredRows(reconciler));
    }));
    return converged;
  }

  const std::shared_ptr<Gate> packets_;
};

TEST_F(LoopPacketsTest, ChangesAreCommittedWhilePacketsStandInTheRules) {
  StartServing();
  Await(Submit(Numbered(1, 3)));
  packets_->Close();
  EXPECT_EQ(Await(Submit(Numbered(1, 0))).outcome, Outcome::kCommitted);
  packets_->AwaitWaiter();
  EXPECT_EQ(Await(Submit(Numbered(2, 3))).outcome, Outcome::kCommitted);
  EXPECT_EQ(Await(Submit(Numbered(2, 0))).outcome, Outcome::kCommitted);
  EXPECT_TRUE(HasLeftovers());
  EXPECT_FALSE(Converged());
  packets_->Open();
  AwaitRemovals();
  EXPECT_TRUE(Converged());
}

// The change adds a reject that is still to be deleted.
TEST_F(LoopPacketsTest, AChangeThatNeedsALeftoverWaits) {
  StartServing();
  Await(Submit(Numbered(1, 0)));
  packets_->Close();
  EXPECT_EQ(Await(Submit(Numbered(1, 1))).outcome, Outcome::kCommitted);
  packets_->AwaitWaiter();
  Answer back = Submit(Numbered(1, 0));
  EXPECT_TRUE(testing::WaitUntil([&] { return packets_->waiting() == 2; }));
  EXPECT_NE(back.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  packets_->Open();
  EXPECT_EQ(Await(back).outcome, Outcome::kCommitted);
  AwaitRemovals();
  EXPECT_TRUE(Converged());
}

TEST_F(LoopPacketsTest, StoppingDeletesLeftovers) {
  StartServing();
  Await(Submit(Numbered(1, 3)));
  packets_->Close();
  Await(Submit(Numbered(1, 0)));
  packets_->AwaitWaiter();
  packets_->Open();
  loop_->Stop();
  EXPECT_TRUE(reconciler_.leftovers().empty());
  EXPECT_EQ(Contents(kernel_), Additions(DesiredRows(reconciler_)));
}

}  // namespace
}  // namespace svcmap::proxy::test
