// Runs the same tests of the nft::Kernel contract on the fake and on the real kernel, for both
// families. The fake kernel must follow the behavior of Linux.
//
//   class TableContract : public KernelContract {};
//   INSTANTIATE_TEST_SUITE_P(All, TableContract, EveryKernel(), KernelCaseName);
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "nft/netlink/netlink_kernel.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/support/fake_kernel.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::nft {

using ::svcmap::testing::Changes;
using ::svcmap::testing::Row;

enum class KernelKind { kFake, kReal };

class KernelContract : public ::testing::TestWithParam<std::tuple<KernelKind, Family>> {
 protected:
  void SetUp() override {
    TableSpecs tables;
    for (const Family family : kFamilies) tables.push_back(proxy::MakeTable(family, {}));
    if (std::get<KernelKind>(GetParam()) == KernelKind::kFake) {
      kernel_ = std::make_unique<FakeKernel>(std::move(tables));
      return;
    }
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    ASSERT_OK_AND_ASSIGN(kernel_, netns_->Run([&] { return NetlinkKernel::Open(tables); }));
  }

  Family family() const { return std::get<Family>(GetParam()); }
  Family other_family() const { return family() == Family::kIpv4 ? Family::kIpv6 : Family::kIpv4; }
  SetRef Set(proxy::SetIndex set) const { return {family(), set}; }

  Transaction Creation() const {
    Transaction transaction;
    transaction.CreateTable({family()});
    return transaction;
  }
  void CreateTable() { Commit(Creation()); }
  void DropTable(Family family) {
    Transaction transaction;
    transaction.DropTable(family);
    Commit(transaction);
  }

  void Commit(const Transaction& transaction) {
    const ApplyResult result = kernel_->Apply(transaction);
    ASSERT_EQ(result.outcome, ApplyOutcome::kCommitted) << result.error;
    EXPECT_OK(result.error);
    EXPECT_EQ(result.failed_element, std::nullopt);
  }
  void Add(const std::vector<Row>& rows) { Commit(Changes({}, rows)); }

  // Applies a transaction, expects a rejection with `code`, and checks that nothing has changed.
  void ExpectRejected(const Transaction& transaction, absl::StatusCode code,
                      std::optional<size_t> failed_element) {
    const uint32_t generation = Generation();
    const auto before = ReadAll();
    const ApplyResult result = kernel_->Apply(transaction);
    EXPECT_EQ(result.outcome, ApplyOutcome::kRejected);
    EXPECT_EQ(result.error.code(), code) << result.error;
    EXPECT_EQ(result.failed_element, failed_element) << result.error;
    EXPECT_EQ(ReadAll(), before);
    EXPECT_EQ(Generation(), generation);
  }

  // Returns true if the real kernel commits a transaction that newer kernels reject. Returns false
  // and does nothing for the fake kernel, which follows newer kernels. A test of the rejection is
  // not applicable to a kernel that commits the transaction.
  bool OldKernelCommits(const Transaction& transaction) {
    if (std::get<KernelKind>(GetParam()) == KernelKind::kFake) return false;
    return kernel_->Apply(transaction).outcome == ApplyOutcome::kCommitted;
  }

  uint32_t Generation() {
    const absl::StatusOr<uint32_t> generation = kernel_->Generation();
    EXPECT_OK(generation);
    return generation.value_or(0);
  }
  bool HasTable(Family family) {
    const absl::StatusOr<bool> has = kernel_->HasTable(family);
    EXPECT_OK(has);
    return has.value_or(false);
  }
  std::vector<Element> Read(proxy::SetIndex set) {
    // On a busy machine, the kernel resizes a large set for longer than ReadSet() repeats its dump.
    absl::StatusOr<std::vector<Element>> elements = std::vector<Element>();
    EXPECT_TRUE(testing::WaitUntil([&] {
      elements = kernel_->ReadSet(Set(set));
      return !absl::IsUnavailable(elements.status());
    }));
    EXPECT_OK(elements);
    return elements.ok() ? *std::move(elements) : std::vector<Element>();
  }
  std::optional<Element> ReadOne(const Row& row) {
    absl::StatusOr<std::optional<Element>> element = kernel_->ReadElement(row.set, row.key.bytes());
    EXPECT_OK(element);
    return element.ok() ? *std::move(element) : std::nullopt;
  }
  // Returns all elements of the table, sorted by set. The result is empty if the table does not
  // exist.
  std::vector<std::vector<Element>> ReadAll() {
    std::vector<std::vector<Element>> all;
    if (!HasTable(family())) return all;
    for (uint8_t set = 0; set < proxy::kSetCount; ++set) {
      all.push_back(Read(static_cast<proxy::SetIndex>(set)));
      std::sort(all.back().begin(), all.back().end());
    }
    return all;
  }

  std::optional<testing::NetNs> netns_;
  std::unique_ptr<Kernel> kernel_;
};

inline auto EveryKernel() {
  return ::testing::Combine(::testing::Values(KernelKind::kFake, KernelKind::kReal),
                            ::testing::ValuesIn(kFamilies));
}

inline std::string KernelCaseName(
    const ::testing::TestParamInfo<std::tuple<KernelKind, Family>>& info) {
  return std::string(std::get<KernelKind>(info.param) == KernelKind::kFake ? "Fake" : "Real") +
         std::string(FamilyName(std::get<Family>(info.param)));
}

}  // namespace svcmap::nft
