// Our tables in the eyes of nft(8): what `nft list` prints of them is what nft/text prints, and it
// loads again. People and other programs run nft on our nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "nft/netlink/netlink_kernel.h"
#include "nft/text/nft_text.h"
#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/instructions.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/raw_nft.h"
#include "tests/contract/rows.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::AddressRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::Ip;
using ::svcmap::testing::NetNs;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::Row;
using ::svcmap::testing::RunNft;
using ::svcmap::testing::RunOk;
using ::svcmap::testing::ServiceRow;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

class ListingTest : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    testing::MakePrivateNetNs(fresh_netns_);
    if (!fresh_netns_) return;
    UseTables({});
  }

  void UseTables(const proxy::RulesetOptions& options) {
    tables_.clear();
    for (const Family family : kFamilies) tables_.push_back(proxy::MakeTable(family, options));
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

  static std::vector<uint32_t> Sizes() {
    std::vector<uint32_t> sizes(proxy::kSetCount,
                                77);  // Where a set is not sized it does not count.
    sizes[proxy::kServiceIps] = 1024;
    sizes[proxy::kEndpoints] = 65536;
    return sizes;
  }
  void Create(const std::vector<uint32_t>& sizes) {
    Transaction creation;
    creation.CreateTable({family(), sizes});
    Commit(creation);
  }
  void Commit(const Transaction& transaction) {
    const ApplyResult result = kernel_->Apply(transaction);
    ASSERT_EQ(result.outcome, ApplyOutcome::kCommitted)
        << result.error << " "
        << (result.failed_element ? ElementText(tables_, transaction, *result.failed_element) : "");
  }

  void CommitEdgeValues();

  std::string List(const NetNs& netns) {
    absl::StatusOr<std::string> listing = RunOk(
        {.argv = {"nft", "list", "table", family() == Family::kIpv4 ? "ip" : "ip6", table().name},
         .netns = &netns});
    EXPECT_OK(listing);
    return listing.value_or("");
  }
  std::string ListSet(const NetNs& netns, const SetSpec& set) {
    absl::StatusOr<std::string> listing =
        RunOk({.argv = {"nft", "list", set.data.empty() ? "set" : "map",
                        family() == Family::kIpv4 ? "ip" : "ip6", table().name, set.name},
               .netns = &netns});
    EXPECT_OK(listing);
    return listing.value_or("");
  }

  TableSpecs tables_;
  std::optional<NetNs> netns_;
  std::optional<NetNs> fresh_netns_;
  std::unique_ptr<NetlinkKernel> kernel_;
};

INSTANTIATE_TEST_SUITE_P(Families, ListingTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(FamilyName(info.param)); });

TEST_P(ListingTest, NftListsOurTableAsWePrintIt) {
  Create(Sizes());
  EXPECT_EQ(List(*netns_), TableText(table(), Sizes()));
}

TEST_P(ListingTest, NftListsOurTableWithAClusterCidrAsWePrintIt) {
  proxy::RulesetOptions options;
  options.cluster_cidr[0] = IpPrefix::Parse("10.244.0.0/16");
  options.cluster_cidr[1] = IpPrefix::Parse("fd00:10:244::/48");
  UseTables(options);
  Create(Sizes());
  EXPECT_EQ(List(*netns_), TableText(table(), Sizes()));
  EXPECT_THAT(List(*netns_), AnyOf(HasSubstr("ip saddr != 10.244.0.0/16"),
                                   HasSubstr("ip6 saddr != fd00:10:244::/48")));
}

TEST_P(ListingTest, NftListsATableWithoutSizesAsWePrintIt) {
  Create({});
  EXPECT_EQ(List(*netns_), TableText(table(), {}));
}

// Differential: nft compiles our text to its own expressions. Equal listings mean that it
// understood ours the same way.
TEST_P(ListingTest, OurTextLoadedByNftListsTheSame) {
  Create(Sizes());
  ASSERT_OK(RunNft(*fresh_netns_, TableText(table(), Sizes())));
  EXPECT_EQ(List(*fresh_netns_), List(*netns_));
}

// The same one level deeper: the instructions and not their text.
TEST_P(ListingTest, OurTextLoadedByNftGivesTheSameInstructions) {
  const auto instructions = [this](const NetNs& netns) {
    const absl::StatusOr<testing::CommandResult> result =
        testing::RunCommand({.argv = {"nft", "--debug=netlink", "list", "table",
                                      family() == Family::kIpv4 ? "ip" : "ip6", table().name},
                             .netns = &netns});
    EXPECT_OK(result);
    return result.ok() ? testing::Instructions::Comparable(result->out + result->err) : "";
  };
  Create(Sizes());
  ASSERT_OK(RunNft(*fresh_netns_, TableText(table(), Sizes())));
  EXPECT_EQ(instructions(*netns_), instructions(*fresh_netns_));
}

TEST_P(ListingTest, ChainPrioritiesPrintAsNftPrintsThem) {
  const std::pair<const char*, int> kCases[] = {
      {"prerouting", -311}, {"prerouting", -310}, {"prerouting", -300}, {"prerouting", -295},
      {"prerouting", -150}, {"prerouting", -101}, {"prerouting", -90},  {"output", -100},
      {"output", -3},       {"output", 0},        {"input", 10},        {"input", 11},
      {"input", 39},        {"input", 40},        {"forward", 50},      {"postrouting", 100},
      {"postrouting", 110}, {"forward", 100}};
  TableSpec& spec = tables_[Index(family())];
  spec = {.family = family(), .name = "priorities"};
  for (const auto& [hook, priority] : kCases) {
    spec.chains.push_back({.name = "chain-" + std::to_string(spec.chains.size()),
                           .comment = "",
                           .base = BaseChain{"filter", hook, priority}});
  }
  OpenKernel();
  Create({});
  EXPECT_EQ(List(*netns_), TableText(table(), {}));
}

// Elements in every set: the edges of what addresses, ports, groups, slots and comments can be.
std::vector<Row> EdgeRows(Family family) {
  const bool v4 = family == Family::kIpv4;
  const IpAddress lowest = v4 ? Ip("0.0.0.0") : Ip("::");
  const IpAddress highest =
      v4 ? Ip("255.255.255.255") : Ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  const IpAddress typical = v4 ? Ip("10.96.0.10") : Ip("fd00:96::10");
  // The longest that Kubernetes allows: namespace and port name 63, shortened to what nft takes.
  std::string long_comment = std::string(63, 'n') + "/" + std::string(63, 's');
  long_comment.resize(Transaction::kMaxComment, 'x');

  std::vector<Row> rows;
  Row marker{.set = {family, proxy::kMarker}};
  marker.key.AppendU32Host(1);
  marker.data.Append(Ip("1:2:3:4:5:6:7:8").bytes());
  rows.push_back(std::move(marker).Comment("0123456789abcdef"));
  rows.push_back(AddressRow(proxy::kClusterIps, lowest));
  rows.push_back(AddressRow(proxy::kClusterIps, highest).Comment(long_comment));
  rows.push_back(AddressRow(proxy::kClusterIps, typical).Comment("ns/web"));
  for (const uint16_t port : {uint16_t{1}, uint16_t{80}, uint16_t{65535}}) {
    for (const uint8_t protocol : {uint8_t{6}, uint8_t{17}, uint8_t{132}}) {
      for (const IpAddress& address : {lowest, typical, highest}) {
        Row row{.set = {family, proxy::kServiceIps}};
        row.key.Append(address.bytes()).AppendU8(protocol).AppendU16Be(port).PadToWord();
        row.data.Append(proxy::Descriptor{.kind = proxy::DispatchKind::kExternalLocal,
                                          .endpoints = proxy::kMaxEndpoints,
                                          .group = proxy::kMaxGroup}
                            .For(address)
                            .bytes());
        rows.push_back(row);
        rows.back().comment = port == 80 ? "a.b/c-d:e" : long_comment;
        row.set.set = proxy::kNoEndpointServices;
        row.data = {};
        rows.push_back(row);
      }
      Row hairpin{.set = {family, proxy::kHairpinConnections}, .comment = long_comment};
      hairpin.key.Append(typical.bytes()).Append(highest.bytes()).AppendU8(protocol);
      hairpin.key.AppendU16Be(port).PadToWord();
      rows.push_back(hairpin);
    }
  }
  for (const uint32_t group : {1u, 0x80u, 0x8000u, 0x800000u, proxy::kMaxGroup}) {
    for (const uint32_t slot : {0u, 1u, 255u, 256u, 65534u}) {
      rows.push_back(EndpointRow(group, slot, typical, 1).Comment(long_comment));
    }
    rows.push_back(EndpointRow(group, 2, highest, 65535));
    rows.push_back(EndpointRow(group, 3, lowest, 65535));
  }
  return rows;
}

// Neighbours, single addresses and odd ends.
std::vector<Row> RangeRows(Family family) {
  std::vector<Row> rows;
  const std::vector<std::pair<const char*, const char*>> ranges =
      family == Family::kIpv4
          ? std::vector<std::pair<const char*, const char*>>{{"10.96.0.0", "10.97.0.0"},
                                                             {"10.97.0.0", "10.97.0.1"},
                                                             {"10.98.0.3", "10.98.0.9"},
                                                             {"172.16.0.0", "172.32.0.0"},
                                                             {"255.255.255.255", ""}}
          : std::vector<std::pair<const char*, const char*>>{
                {"fd00:96::", "fd00:96::1:0"},
                {"fd00:96::1:0", "fd00:96::1:1"},
                {"fd00:97::3", "fd00:97::9"},
                {"fd00:98::", "fd00:99::"},
                {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""}};
  for (const auto& [start, end] : ranges) {
    rows.push_back(RangeStart(Ip(start)).Comment("cidr"));
    if (*end != '\0') rows.push_back(RangeEnd(Ip(end)));
  }
  return rows;
}

// A range end that nft writes carries no comment.
std::vector<Element> WithoutEndComments(std::vector<Element> elements) {
  for (Element& element : elements) {
    if (element.interval_end) element.comment.clear();
  }
  return elements;
}

void ListingTest::CommitEdgeValues() {
  Transaction transaction;
  for (const Row& row : EdgeRows(family())) transaction.Add(row);
  for (const Row& row : RangeRows(family())) transaction.Add(row);
  Commit(transaction);
}

TEST_P(ListingTest, ATableFullOfEdgeValuesListsAndLoadsAgain) {
  Create(Sizes());
  CommitEdgeValues();
  const std::string listing = List(*netns_);
  ASSERT_OK(RunNft(*fresh_netns_, listing));
  EXPECT_EQ(List(*fresh_netns_), listing);
}

// Equal listings are not enough: a wrong byte order would be read and written alike.
TEST_P(ListingTest, ALoadedListingHasTheSameBytesInEverySet) {
  Create(Sizes());
  CommitEdgeValues();
  ASSERT_OK(RunNft(*fresh_netns_, List(*netns_)));
  ASSERT_OK_AND_ASSIGN(const auto fresh_kernel,
                       fresh_netns_->Run([&] { return NetlinkKernel::Open(tables_); }));
  for (uint8_t set = 0; set < proxy::kSetCount; ++set) {
    SCOPED_TRACE(table().sets[set].name);
    ASSERT_OK_AND_ASSIGN(const auto ours, kernel_->ReadSet({family(), set}));
    ASSERT_OK_AND_ASSIGN(auto loaded, fresh_kernel->ReadSet({family(), set}));
    // nft closes the gap in front of the first range with an end of its own.
    const IpAddress zero = family() == Family::kIpv4 ? Ip("0.0.0.0") : Ip("::");
    std::erase(loaded, RangeEnd(zero).Read());
    EXPECT_THAT(loaded, UnorderedElementsAreArray(WithoutEndComments(ours)));
  }
}

TEST_P(ListingTest, TheWholeAddressSpaceAsARangeListsAndLoadsAgain) {
  Create(Sizes());
  Transaction transaction;
  transaction.Add(RangeStart(family() == Family::kIpv4 ? Ip("0.0.0.0") : Ip("::")));
  Commit(transaction);
  const std::string listing = List(*netns_);
  EXPECT_THAT(listing, AnyOf(HasSubstr("{ 0.0.0.0/0 }"), HasSubstr("{ ::/0 }")));
  ASSERT_OK(RunNft(*fresh_netns_, listing));
  EXPECT_EQ(List(*fresh_netns_), listing);
}

// The transaction as text, fed to nft, does what the batch did.
TEST_P(ListingTest, ATransactionAsTextDoesTheSame) {
  Create(Sizes());
  Transaction first, second;
  std::vector<Row> rows = EdgeRows(family());
  for (const Row& row : RangeRows(family())) rows.push_back(row);
  for (const Row& row : rows) first.Add(row);
  for (size_t i = 0; i + 2 < rows.size(); ++i) {
    if (rows[i].set.set != proxy::kServiceCidrs && i % 3 == 0) second.Delete(rows[i]);
  }
  const std::vector<Row> ranges = RangeRows(family());
  second.Delete(ranges[0]);
  second.Delete(ranges[1]);
  second.Delete(ranges[4]);
  second.Delete(ranges[5]);
  Commit(first);
  Commit(second);

  ASSERT_OK(RunNft(*fresh_netns_, TableText(table(), Sizes())));
  ASSERT_OK(RunNft(*fresh_netns_, TransactionText(tables_, first)));
  ASSERT_OK(RunNft(*fresh_netns_, TransactionText(tables_, second)));
  EXPECT_EQ(List(*fresh_netns_), List(*netns_));
}

// "elements = { A, B }" as A and B in some order; nft sorts in ways of its own, and breaks lines
// too.
std::vector<std::string> ListedElements(const std::string& text) {
  const size_t begin = text.find("elements = { "), end = text.rfind(" }\n");
  if (begin == text.npos || end == text.npos) return {"no elements in: " + text};
  std::vector<std::string> elements =
      absl::StrSplit(text.substr(begin + 13, end - begin - 13), ',');
  for (std::string& element : elements) absl::StripAsciiWhitespace(&element);
  return elements;
}

TEST_P(ListingTest, ElementsReadBackPrintAsNftListsThem) {
  Create(Sizes());
  CommitEdgeValues();
  for (uint8_t set = 0; set < proxy::kSetCount; ++set) {
    const SetSpec& spec = table().sets[set];
    SCOPED_TRACE(spec.name);
    ASSERT_OK_AND_ASSIGN(const std::vector<Element> elements, kernel_->ReadSet({family(), set}));
    EXPECT_THAT(ListedElements(ElementsText(spec, elements)),
                UnorderedElementsAreArray(ListedElements(ListSet(*netns_, spec))));
  }
}

// User data tells nft 1.0.6 how to read keys that no type of its own names, or in which byte order.
TEST_P(ListingTest, UserDataOfOurSetsIsWhatNftWrites) {
  ASSERT_OK(RunNft(*fresh_netns_, TableText(table(), Sizes())));
  const std::map<std::string, testing::Bytes> nfts =
      fresh_netns_->Run([&] { return testing::ReadSetUserdata(family()); });
  EXPECT_EQ(nfts.size(), table().sets.size());
  for (const SetSpec& set : table().sets) {
    SCOPED_TRACE(set.name);
    ASSERT_EQ(nfts.count(set.name), 1u);
    const bool named = set.typeof_text.empty() && set.key[0] != Field::kMark;
    EXPECT_EQ(set.userdata, named ? testing::Bytes() : nfts.at(set.name));
  }
}

TEST_P(ListingTest, CommentsThatNftCouldNotReadArePrintedWithQuestionMarks) {
  ASSERT_OK(RunNft(*fresh_netns_, TableText(table(), Sizes())));
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 1)
                      .Comment("a\"b\nc\td\x7f"
                               "e\\ $x *{};#'"));
  const std::string text = TransactionText(tables_, transaction);
  ASSERT_OK(RunNft(*fresh_netns_, text));
  EXPECT_THAT(List(*fresh_netns_), HasSubstr("comment \"a?b?c?d?e\\ $x *{};#'\""));
}

}  // namespace
}  // namespace svcmap::nft
