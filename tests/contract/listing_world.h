// svcmapd's tables in one namespace, and an empty namespace for tables that nft loads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nft/model/table.h"
#include "nft/netlink/netlink_kernel.h"
#include "nft/text/nft_text.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/support/nft.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {

// Returns the priority in nft syntax: a number, or a standard name with an offset of at most 10,
// such as "filter + 5".
inline std::string PriorityText(int priority, std::string_view hook) {
  struct Name {
    int priority;
    std::string_view text;
    std::string_view hook;  // If empty, the name is valid for any hook.
  };
  static constexpr Name kNames[] = {
      {-300, "raw", ""}, {-150, "mangle", ""}, {-100, "dstnat", "prerouting"},
      {0, "filter", ""}, {50, "security", ""}, {100, "srcnat", "postrouting"}};
  for (const Name& name : kNames) {
    const int offset = priority - name.priority;
    if (offset < -10 || offset > 10 || (!name.hook.empty() && name.hook != hook)) continue;
    std::string text(name.text);
    if (offset > 0) text += " + " + std::to_string(offset);
    if (offset < 0) text += " - " + std::to_string(-offset);
    return text;
  }
  return std::to_string(priority);
}

// Other fields have no named type, so that their sets have a typeof_text.
inline std::string TypeName(Field field) {
  switch (field) {
    case Field::kIpv4Addr:
      return "ipv4_addr";
    case Field::kIpv6Addr:
      return "ipv6_addr";
    case Field::kInetProto:
      return "inet_proto";
    case Field::kInetService:
      return "inet_service";
    case Field::kMark:
      return "mark";
    default:
      return "?";
  }
}

inline std::string TypesText(std::span<const Field> fields) {
  std::string text;
  for (const Field field : fields) {
    if (!text.empty()) text += " . ";
    text += TypeName(field);
  }
  return text;
}

inline std::string SetDeclaration(const SetSpec& set) {
  std::string text = set.data.empty() ? "\tset " : "\tmap ";
  text += set.name + " {\n\t\t";
  if (!set.typeof_text.empty()) {
    text += set.typeof_text;
  } else {
    text += "type " + TypesText(set.key);
    if (!set.data.empty()) text += " : " + TypesText(set.data);
  }
  text += "\n";
  if (set.dynamic_size != 0) {
    text += "\t\tsize " + std::to_string(set.dynamic_size) + "\n\t\tflags dynamic,timeout\n";
  }
  if (set.interval) text += "\t\tflags interval\n";
  return text + "\t}\n";
}

inline std::string ChainDeclaration(const TableSpec& table, const ChainSpec& chain) {
  std::string text = "\tchain " + chain.name + " {\n";
  if (!chain.comment.empty()) text += "\t\tcomment \"" + chain.comment + "\"\n";
  if (chain.base) {
    text += "\t\ttype " + chain.base->type + " hook " + chain.base->hook + " priority " +
            PriorityText(chain.base->priority, chain.base->hook) + "; policy accept;\n";
  }
  for (const RuleSpec& rule : table.rules) {
    if (rule.chain == chain.name) text += "\t\t" + rule.text + "\n";
  }
  return text + "\t}\n";
}

// Returns the table without elements, byte for byte as `nft list table` 1.0.6 prints a table that
// was created from this specification.
inline std::string TableText(const TableSpec& table) {
  std::string text =
      "table " + std::string(table.family == Family::kIpv4 ? "ip " : "ip6 ") + table.name + " {\n";
  const char* separator = "";
  for (const SetSpec& set : table.sets) {
    text += separator + SetDeclaration(set);
    separator = "\n";
  }
  for (const ChainSpec& chain : table.chains) {
    text += separator + ChainDeclaration(table, chain);
    separator = "\n";
  }
  return text + "}\n";
}

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
