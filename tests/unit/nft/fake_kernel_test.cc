// Tests of features that only the fake kernel has. Behavior shared with the real kernel is tested
// in tests/contract/*_contract_test.cc.
#include "nft/fake/fake_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/ruleset/table.h"
#include "tests/contract/rows.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using Fault = FakeKernel::Fault;

class FakeKernelTest : public ::testing::Test {
 protected:
  FakeKernelTest() : kernel_(proxy::MakeTables({})) {
    Transaction creation;
    creation.CreateTable({Family::kIpv4});
    EXPECT_EQ(kernel_.Apply(creation).outcome, ApplyOutcome::kCommitted);
  }

  ApplyResult Add(uint32_t number) {
    Transaction transaction;
    transaction.Add(ClusterIpRow(Family::kIpv4, number));
    return kernel_.Apply(transaction);
  }
  size_t Count() { return kernel_.ReadSet({Family::kIpv4, proxy::kClusterIps})->size(); }
  uint32_t Generation() { return *kernel_.Generation(); }

  FakeKernel kernel_;
};

TEST_F(FakeKernelTest, AnInjectedRejectionDoesNothing) {
  kernel_.SetFaultHook([](const Transaction&) { return Fault::kReject; });
  const uint32_t generation = Generation();
  const ApplyResult result = Add(1);
  EXPECT_EQ(result.outcome, ApplyOutcome::kRejected);
  EXPECT_FALSE(result.error.ok());
  EXPECT_EQ(Count(), 0u);
  EXPECT_EQ(Generation(), generation);
}

TEST_F(FakeKernelTest, AnUnknownOutcomeMayBeCommitted) {
  kernel_.SetFaultHook([](const Transaction&) { return Fault::kUnknownCommitted; });
  const uint32_t generation = Generation();
  const ApplyResult result = Add(1);
  EXPECT_EQ(result.outcome, ApplyOutcome::kUnknown);
  EXPECT_FALSE(result.error.ok());
  EXPECT_EQ(Count(), 1u);
  EXPECT_EQ(Generation(), generation + 1);
}

TEST_F(FakeKernelTest, AnUnknownOutcomeMayBeNotCommitted) {
  kernel_.SetFaultHook([](const Transaction&) { return Fault::kUnknownNotCommitted; });
  const uint32_t generation = Generation();
  EXPECT_EQ(Add(1).outcome, ApplyOutcome::kUnknown);
  EXPECT_EQ(Count(), 0u);
  EXPECT_EQ(Generation(), generation);
}

TEST_F(FakeKernelTest, AnInvalidTransactionIsNotCommittedEvenIfNobodyHears) {
  kernel_.SetFaultHook([](const Transaction&) { return Fault::kUnknownCommitted; });
  Transaction transaction;
  transaction.Add(ClusterIpRow(Family::kIpv4, 1));
  transaction.Delete(ClusterIpRow(Family::kIpv4, 2));
  EXPECT_EQ(kernel_.Apply(transaction).outcome, ApplyOutcome::kUnknown);
  EXPECT_EQ(Count(), 0u);
}

TEST_F(FakeKernelTest, TheHookDecidesForEachTransaction) {
  kernel_.SetFaultHook([](const Transaction& transaction) {
    return transaction.deletion_count() > 0 ? Fault::kReject : Fault::kNone;
  });
  EXPECT_EQ(Add(1).outcome, ApplyOutcome::kCommitted);
  Transaction removal;
  removal.Delete(ClusterIpRow(Family::kIpv4, 1));
  EXPECT_EQ(kernel_.Apply(removal).outcome, ApplyOutcome::kRejected);
  kernel_.SetFaultHook(nullptr);
  EXPECT_EQ(kernel_.Apply(removal).outcome, ApplyOutcome::kCommitted);
}

TEST_F(FakeKernelTest, AnEmptyTransactionDoesNotAskTheHook) {
  kernel_.SetFaultHook([](const Transaction&) { return Fault::kReject; });
  EXPECT_EQ(kernel_.Apply(Transaction()).outcome, ApplyOutcome::kCommitted);
}

TEST_F(FakeKernelTest, OthersCanDropATable) {
  const uint32_t generation = Generation();
  EXPECT_TRUE(kernel_.ForeignDropTable(Family::kIpv4));
  EXPECT_FALSE(*kernel_.HasTable(Family::kIpv4));
  EXPECT_EQ(Generation(), generation + 1);
  EXPECT_FALSE(kernel_.ForeignDropTable(Family::kIpv4));
  EXPECT_EQ(Generation(), generation + 1);
}

TEST_F(FakeKernelTest, OthersCanRemoveAnElement) {
  const auto row = ClusterIpRow(Family::kIpv4, 1);
  EXPECT_EQ(Add(1).outcome, ApplyOutcome::kCommitted);
  const uint32_t generation = Generation();
  EXPECT_TRUE(kernel_.ForeignRemoveElement(row.set, row.key.bytes()));
  EXPECT_FALSE(kernel_.ForeignRemoveElement(row.set, row.key.bytes()));
  EXPECT_EQ(Count(), 0u);
  EXPECT_EQ(Generation(), generation + 1);
}

TEST_F(FakeKernelTest, OthersCanRemoveTheEndOfARange) {
  const auto end = RangeEnd(testing::Ip("10.97.0.0"));
  Transaction transaction;
  transaction.Add(RangeStart(testing::Ip("10.96.0.0")));
  transaction.Add(end);
  EXPECT_EQ(kernel_.Apply(transaction).outcome, ApplyOutcome::kCommitted);
  EXPECT_FALSE(kernel_.ForeignRemoveElement(end.set, end.key.bytes()));
  EXPECT_TRUE(kernel_.ForeignRemoveElement(end.set, end.key.bytes(), /*interval_end=*/true));
}

TEST_F(FakeKernelTest, OthersCanRemoveARecordAndARangeOfSeveralFields) {
  const auto record = testing::RecordRow(Family::kIpv4, 7, 1, 0x10001);
  const auto sources = testing::SourceRow(Family::kIpv4, 1, 0x100, 0x1ff);
  Transaction transaction;
  transaction.Add(record);
  transaction.Add(sources);
  EXPECT_EQ(kernel_.Apply(transaction).outcome, ApplyOutcome::kCommitted);
  for (const auto& row : {record, sources}) {
    EXPECT_TRUE(kernel_.ForeignRemoveElement(row.set, row.key.bytes()));
    EXPECT_FALSE(kernel_.ForeignRemoveElement(row.set, row.key.bytes()));
  }
}

TEST_F(FakeKernelTest, AnInjectedRejectionLeavesATableToBeWrittenInPlaceAsItWas) {
  const auto record = testing::RecordRow(Family::kIpv4, 7, 1, 0x10001);
  EXPECT_EQ(Add(1).outcome, ApplyOutcome::kCommitted);
  Transaction add, in_place;
  add.Add(record);
  EXPECT_EQ(kernel_.Apply(add).outcome, ApplyOutcome::kCommitted);
  in_place.CreateTable({.family = Family::kIpv4, .existing = svcmap::testing::DataSets()});
  kernel_.SetFaultHook([](const Transaction&) { return Fault::kUnknownNotCommitted; });
  EXPECT_EQ(kernel_.Apply(in_place).outcome, ApplyOutcome::kUnknown);
  EXPECT_EQ(Count(), 1u);
  kernel_.SetFaultHook([](const Transaction&) { return Fault::kUnknownCommitted; });
  EXPECT_EQ(kernel_.Apply(in_place).outcome, ApplyOutcome::kUnknown);
  EXPECT_EQ(Count(), 0u);
  EXPECT_EQ(kernel_.ReadSet(record.set)->size(), 1u);
}

TEST_F(FakeKernelTest, OthersCanAddAnElement) {
  const auto row = ClusterIpRow(Family::kIpv4, 1);
  const uint32_t generation = Generation();
  EXPECT_TRUE(kernel_.ForeignAddElement(row));
  EXPECT_FALSE(kernel_.ForeignAddElement(row));
  EXPECT_FALSE(kernel_.ForeignAddElement(ClusterIpRow(Family::kIpv6, 1))) << "there is no table";
  EXPECT_EQ(Count(), 1u);
  EXPECT_EQ(Generation(), generation + 1);
}

TEST_F(FakeKernelTest, OthersCanChangeChainsAsFarAsTheKernelLetsThem) {
  const uint32_t generation = Generation();
  EXPECT_TRUE(kernel_.ForeignAddChain(Family::kIpv4, "theirs"));
  EXPECT_FALSE(kernel_.ForeignAddChain(Family::kIpv4, "theirs"));
  EXPECT_TRUE(kernel_.ForeignAddRule(Family::kIpv4, "theirs"));
  EXPECT_FALSE(kernel_.ForeignAddRule(Family::kIpv4, "nowhere"));
  EXPECT_TRUE(kernel_.ForeignDeleteRule(Family::kIpv4, "theirs"));
  EXPECT_FALSE(kernel_.ForeignDeleteRule(Family::kIpv4, "theirs")) << "it is empty";
  EXPECT_TRUE(kernel_.ForeignDeleteChain(Family::kIpv4, "theirs"));
  EXPECT_FALSE(kernel_.ForeignDeleteChain(Family::kIpv4, "theirs"));
  EXPECT_FALSE(kernel_.ForeignDeleteChain(Family::kIpv4, "services")) << "rules lead there";
  EXPECT_TRUE(kernel_.ForeignAddSet(Family::kIpv4, "their-set"));
  EXPECT_FALSE(kernel_.ForeignAddSet(Family::kIpv4, "their-set"));
  EXPECT_FALSE(kernel_.ForeignAddChain(Family::kIpv6, "theirs")) << "there is no table";
  EXPECT_EQ(Generation(), generation + 5);
}

TEST_F(FakeKernelTest, CommitsOfOthersCountInTheGeneration) {
  const uint32_t generation = Generation();
  kernel_.ForeignCommit();
  EXPECT_EQ(Generation(), generation + 1);
}

}  // namespace
}  // namespace svcmap::nft
