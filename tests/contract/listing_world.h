// svcmapd's tables in one namespace, and an empty namespace for tables that nft loads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nft/netlink/netlink_kernel.h"
#include "nft/text/nft_text.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/table_text.h"
#include "tests/support/nft.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {

class ListingTest : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    testing::MakePrivateNetNs(fresh_netns_);
    if (!fresh_netns_) return;
    UseTables({});
  }

  void UseTables(const proxy::RulesetOptions& options,
                 const std::vector<uint32_t>& timers = {proxy::kDefaultAffinitySeconds}) {
    tables_.clear();
    for (const Family family : kFamilies) {
      tables_.push_back(proxy::MakeTable(family, options, timers));
    }
    OpenKernel();
  }
  void OpenKernel() {
    ASSERT_OK_AND_ASSIGN(kernel_, netns_->Run([&] { return NetlinkKernel::Open(tables_); }));
  }

  Family family() const { return GetParam(); }
  const TableSpec& table() const { return tables_[Index(family())]; }
  std::string TableName() const {
    return std::string(family() == Family::kIpv4 ? "ip " : "ip6 ") + table().name;
  }

  void Create() {
    Transaction creation;
    creation.DropTable(family());
    creation.CreateTable({family()});
    Commit(creation);
  }
  void Commit(const Transaction& transaction) {
    const ApplyResult result = kernel_->Apply(transaction);
    ASSERT_EQ(result.outcome, ApplyOutcome::kCommitted)
        << result.error << " "
        << (result.failed_element ? ElementText(tables_, transaction, *result.failed_element) : "");
  }

  std::string List(const testing::NetNs& netns) {
    absl::StatusOr<std::string> listing = testing::ListNft(netns, "list table " + TableName());
    EXPECT_OK(listing);
    return listing.value_or("");
  }
  // Returns the sets and chains, sorted, because after a rewrite in place the kept sets are listed
  // first.
  std::string ListSorted(const testing::NetNs& netns) {
    std::vector<std::string> blocks = absl::StrSplit(List(netns), "\n\n");
    for (std::string& block : blocks) {
      if (block.rfind("table ", 0) == 0) block.erase(0, block.find('\n') + 1);
      while (!block.empty() && (block.back() == '\n' || block.back() == '}')) block.pop_back();
    }
    std::sort(blocks.begin(), blocks.end());
    return absl::StrJoin(blocks, "\n");
  }
  std::string ListSet(const testing::NetNs& netns, const SetSpec& set) {
    absl::StatusOr<std::string> listing = testing::ListNft(
        netns,
        absl::StrCat(set.data.empty() ? "list set " : "list map ", TableName(), " ", set.name));
    EXPECT_OK(listing);
    return listing.value_or("");
  }

  // Flushes the ruleset of the second namespace and loads `text` there.
  absl::Status LoadFresh(const std::string& text) {
    return testing::RunNft(*fresh_netns_, "flush ruleset\n" + text);
  }

  TableSpecs tables_;
  std::optional<testing::NetNs> netns_;
  std::optional<testing::NetNs> fresh_netns_;
  std::unique_ptr<NetlinkKernel> kernel_;
};

}  // namespace svcmap::nft
