// A watched kernel with svcmapd's tables and some elements, and the changes that its monitor has
// reported.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nft/netlink/watched_kernel.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::nft {

// Collects the changes that the monitor reports.
class ReportedChanges {
 public:
  void Add(const ForeignChange& change) {
    {
      const std::lock_guard lock(mutex_);
      changes_.push_back(change);
    }
    changed_.notify_all();
  }
  std::optional<ForeignChange> Next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, testing::kHangLimit, [&] { return !changes_.empty(); }))
      return std::nullopt;
    ForeignChange change = std::move(changes_.front());
    changes_.pop_front();
    return change;
  }
  std::vector<std::string> Texts() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const ForeignChange& change : changes_) texts.push_back(change.text);
    return texts;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ForeignChange> changes_;
};

class WatchedWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    for (const Family family : kFamilies) tables_.push_back(proxy::MakeTable(family, {}));
    Open({});
    Transaction creation;
    for (const Family family : kFamilies) creation.CreateTable({family});
    Commit(creation);
    Add({testing::ServiceRow(Family::kIpv4, 1), testing::ServiceRow(Family::kIpv4, 2),
         testing::ClusterIpRow(Family::kIpv4, 1),
         testing::EndpointRow(1, 0, testing::Address(Family::kIpv4, 9), 80),
         testing::EndpointRow(1, 1, testing::Address(Family::kIpv4, 8), 80),
         testing::RangeStart(testing::Address(Family::kIpv4, 0x100)),
         testing::RangeEnd(testing::Address(Family::kIpv4, 0x200)),
         testing::SourceRow(Family::kIpv4, 1, 0x100, 0x1ff),
         testing::RecordRow(Family::kIpv4, 7, 1, 0x10001)});
    WaitUntilReported();
  }
  void Open(WatchedKernelOptions options) {
    kernel_.reset();
    ASSERT_OK_AND_ASSIGN(kernel_, netns_->Run([&] {
      return WatchedKernel::Open(
          tables_, [this](const ForeignChange& change) { heard_.Add(change); }, options);
    }));
  }

  void Commit(const Transaction& transaction) {
    const ApplyResult result = kernel_->Apply(transaction);
    ASSERT_EQ(result.outcome, ApplyOutcome::kCommitted) << result.error;
  }
  void Add(const std::vector<testing::Row>& rows) { Commit(testing::Changes({}, rows)); }
  void Nft(const std::string& script) { ASSERT_OK(testing::RunNft(*netns_, script)); }

  uint32_t Generation() {
    const absl::StatusOr<uint32_t> generation = kernel_->Generation();
    EXPECT_OK(generation);
    return generation.value_or(0);
  }
  // Waits until the monitor has reported all changes made so far.
  void WaitUntilReported() {
    const uint32_t generation = Generation();
    ASSERT_TRUE(testing::WaitUntil([&] { return kernel_->reported_generation() == generation; }))
        << "not reported: " << generation;
  }
  ForeignChange AfterNft(const std::string& script) {
    Nft(script);
    std::optional<ForeignChange> change = heard_.Next();
    EXPECT_TRUE(change) << "nothing was handed out";
    WaitUntilReported();
    EXPECT_THAT(heard_.Texts(), ::testing::IsEmpty()) << "more than one";
    return change.value_or(ForeignChange());
  }
  void ExpectNothing() {
    WaitUntilReported();
    EXPECT_THAT(heard_.Texts(), ::testing::IsEmpty());
  }
  static ForeignChange::Touched Touched(const testing::Row& row) {
    const auto key = row.key.bytes();
    return {row.set, {key.begin(), key.end()}};
  }

  std::optional<testing::NetNs> netns_;
  TableSpecs tables_;
  ReportedChanges heard_;
  std::unique_ptr<WatchedKernel> kernel_;
};

}  // namespace svcmap::nft
