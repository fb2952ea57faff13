// Tests of svcmapd's tables as listed by nft(8). `nft list` prints the same text as TableText, and
// nft can load this text again. Operators and other software use nft on nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nft/model/table.h"
#include "nft/netlink/netlink_kernel.h"
#include "nft/text/nft_text.h"
#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/edge_rows.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/support/nft.h"
#include "tests/support/raw_nft.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Changes;
using ::svcmap::testing::Ip;
using ::svcmap::testing::NetNs;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeRows;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::Row;
using ::svcmap::testing::RunNft;
using ::svcmap::testing::ServiceRow;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

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

// svcmapd's tables in one namespace, and an empty namespace for tables that nft loads.
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

// Converts the output of `nft --debug=netlink list` to a form that tests can compare.
class Instructions {
 public:
  // Removes details that may differ between equal rulesets: rule handles, numbers of the { tcp,
  // udp, sctp } sets, and the order of elements (the kernel's hash is random). Also removes result
  // registers of lookups, because svcmapd's rules place the result behind the key and nft's rules
  // use the same register. Also removes nft's byte order conversion of a single byte (meta l4proto
  // in keys of ranges), which has no effect.
  static std::string Comparable(const std::string& text) {
    Instructions instructions;
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    std::erase_if(lines, [](const std::string& line) {
      return line.find("[ byteorder reg") != line.npos && line.find(", 2, 1) ]") != line.npos;
    });
    for (std::string& line : lines) line = instructions.Line(line);
    const auto is_element = [](const std::string& line) { return line.rfind("\telement", 0) == 0; };
    for (auto begin = lines.begin(); begin != lines.end();) {
      begin = std::find_if(begin, lines.end(), is_element);
      const auto end = std::find_if_not(begin, lines.end(), is_element);
      std::sort(begin, end);
      begin = end;
    }
    return absl::StrJoin(lines, "\n");
  }

 private:
  std::string Line(const std::string& line) {
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    // The line starts a rule and contains its handle and position.
    if (words[0] == "ip" || words[0] == "ip6") {
      result_.reset();
      while (words.size() > 3 && IsNumber(words.back())) words.pop_back();
    }
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i].rfind("__set", 0) == 0) words[i] = "__set";
      if (words[i - 1] == "dreg" && words[i] != "0" && line.find("lookup") != line.npos) {
        result_ = RegisterWord(words[i]);
        words[i] = "RESULT";
      } else if (words[i - 1] == "reg" && result_ && UsesResult(words[i - 2])) {
        words[i] = "RESULT+" + std::to_string(RegisterWord(words[i]) - *result_);
      }
    }
    return absl::StrJoin(words, " ");
  }

  static bool IsNumber(const std::string& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
  }

  // Returns true for words that precede the result register, as in "payload write reg N", "addr_min
  // reg N" or "proto_max reg N".
  static bool UsesResult(const std::string& word) {
    return word == "write" || word.find("_min") != word.npos || word.find("_max") != word.npos;
  }

  // Returns the index of a register's first word. The registers 1 to 4 hold four words each. From
  // register 8, each register is one word, so the registers 1 and 8 are the same.
  static int RegisterWord(const std::string& number) {
    const int value = std::stoi(number);
    return value <= 4 ? (value - 1) * 4 : value - 8;
  }

  std::optional<int> result_;  // Register word with the result of the rule's last lookup.
};

INSTANTIATE_TEST_SUITE_P(Families, ListingTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(FamilyName(info.param)); });

// A variant of svcmapd's tables.
struct Variant {
  const char* name;
  proxy::RulesetOptions options;
  std::vector<uint32_t> timers = {proxy::kDefaultAffinitySeconds};
};

std::vector<Variant> Variants() {
  std::vector<Variant> variants = {
      {"by address", {}},
      {"by bridge", {.detect_local = proxy::DetectLocal::kInterface, .interface = "cni0"}},
      {"by prefix", {.detect_local = proxy::DetectLocal::kInterface, .interface = "veth*"}},
      {"the longest interface name",
       {.detect_local = proxy::DetectLocal::kInterface, .interface = "abcdefghijklmno"}},
      {"masquerade all by interface",
       {.detect_local = proxy::DetectLocal::kInterface,
        .interface = "cni0",
        .masquerade_all = true}},
      {"connections are counted", {.count_connections = true}},
      {"resets, nf_conntrack_tcp_loose=1", {.tcp_resets = proxy::TcpResets::kLoose}},
      {"resets, nf_conntrack_tcp_loose=0", {.tcp_resets = proxy::TcpResets::kStrict}},
      {"resets, nf_conntrack_tcp_loose=0, and ping is answered and connections are counted",
       {.count_connections = true, .tcp_resets = proxy::TcpResets::kStrict, .answer_ping = true}},
      {"ping is answered", {.answer_ping = true}},
      {"lookups are not repeated", {.repeat_lookups = false}},
      {"port ranges", {.port_ranges = true}},
      {"port ranges, and connections are counted",
       {.count_connections = true, .port_ranges = true}},
      {"ping is answered and connections are counted",
       {.count_connections = true, .answer_ping = true}},
      {"timeouts of all forms", {}, {10800, 1, 59, 60, 90, 3600, 3661, 5400, 86399, 86400}},
  };
  Variant full{"as many timeouts as there can be, and port ranges, and connections are counted",
               {.count_connections = true, .port_ranges = true}};
  while (full.timers.size() < proxy::kMaxTimers)
    full.timers.push_back(static_cast<uint32_t>(full.timers.size()) * 7);
  variants.push_back(full);
  return variants;
}

// Differential test: nft compiles svcmapd's text to its own expressions. Equal listings show that
// nft interprets the rules of both tables the same way. Equal instructions show that the
// expressions of both tables are equivalent.
TEST_P(ListingTest, OurTextLoadedByNftGivesTheSameListingAndInstructions) {
  const auto instructions = [this](const NetNs& netns) {
    const absl::StatusOr<testing::CommandResult> result =
        testing::RunCommand({.argv = {"nft", "--debug=netlink", "list", "table",
                                      family() == Family::kIpv4 ? "ip" : "ip6", table().name},
                             .netns = &netns});
    EXPECT_OK(result);
    return result.ok() ? Instructions::Comparable(result->out + result->err) : "";
  };
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    UseTables(variant.options, variant.timers);
    Create();
    ASSERT_OK(LoadFresh(TableText(table())));
    EXPECT_EQ(List(*netns_), TableText(table()));
    EXPECT_EQ(List(*fresh_netns_), TableText(table()));
    EXPECT_EQ(instructions(*netns_), instructions(*fresh_netns_));
  }
}

// nft 1.0.6 needs the user data to read keys that have no named type or that have another byte
// order.
TEST_P(ListingTest, UserDataOfOurSetsIsWhatNftWrites) {
  ASSERT_OK(RunNft(*fresh_netns_, TableText(table())));
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

// Tests of elements as listed by nft(8). nft can load a listing again, which results in the same
// bytes.

// nft writes range ends without a comment.
std::vector<Element> WithoutEndComments(std::vector<Element> elements) {
  for (Element& element : elements) {
    if (element.interval_end) element.comment.clear();
  }
  return elements;
}

constexpr proxy::SetIndex kRangeSets[] = {proxy::kPodSources, proxy::kMasqueradeSources,
                                          proxy::kServiceCidrs};

class ElementListingTest : public ListingTest {
 protected:
  std::vector<Row> AllRows() const {
    std::vector<Row> rows = testing::EdgeRows(family());
    for (const proxy::SetIndex set : kRangeSets) {
      for (const Row& row : RangeRows(family(), set)) rows.push_back(row);
    }
    return rows;
  }
  void CommitEdgeValues() { Commit(Changes({}, AllRows())); }
};

INSTANTIATE_TEST_SUITE_P(Families, ElementListingTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(FamilyName(info.param)); });

// Equal listings alone are not sufficient, because nft would read and write an incorrect byte order
// the same way.
TEST_P(ElementListingTest, ALoadedListingHasTheSameBytesInEverySet) {
  Create();
  CommitEdgeValues();
  ASSERT_OK(RunNft(*fresh_netns_, List(*netns_)));
  ASSERT_OK_AND_ASSIGN(const auto fresh_kernel,
                       fresh_netns_->Run([&] { return NetlinkKernel::Open(tables_); }));
  for (uint8_t set = 0; set < proxy::kSetCount; ++set) {
    SCOPED_TRACE(table().sets[set].name);
    ASSERT_OK_AND_ASSIGN(const auto ours, kernel_->ReadSet({family(), set}));
    ASSERT_OK_AND_ASSIGN(auto loaded, fresh_kernel->ReadSet({family(), set}));
    // nft adds an end element at the lowest address if the first range starts later.
    const IpAddress zero = family() == Family::kIpv4 ? Ip("0.0.0.0") : Ip("::");
    std::erase(loaded, RangeEnd(zero).Read());
    EXPECT_FALSE(ours.empty()) << "no edge values";
    EXPECT_THAT(loaded, UnorderedElementsAreArray(WithoutEndComments(ours)));
  }
}

TEST_P(ElementListingTest, TheWholeAddressSpaceAsARangeListsAndLoadsAgain) {
  Create();
  Commit(Changes({}, {RangeStart(family() == Family::kIpv4 ? Ip("0.0.0.0") : Ip("::"))}));
  const std::string listing = List(*netns_);
  EXPECT_THAT(listing, AnyOf(HasSubstr("{ 0.0.0.0/0 }"), HasSubstr("{ ::/0 }")));
  ASSERT_OK(LoadFresh(listing));
  EXPECT_EQ(List(*fresh_netns_), listing);
}

// Splits "elements = { A, B }" into A and B. The order of elements is not significant, because nft
// has its own sort order and line breaks.
std::vector<std::string> ListedElements(const std::string& text) {
  const size_t begin = text.find("elements = { "), end = text.rfind(" }\n");
  if (begin == text.npos || end == text.npos) return {"no elements in: " + text};
  std::vector<std::string> elements =
      absl::StrSplit(text.substr(begin + 13, end - begin - 13), ',');
  for (std::string& element : elements) absl::StripAsciiWhitespace(&element);
  return elements;
}

// Loading the text of a transaction with nft has the same effect as the batch.
TEST_P(ElementListingTest, ATransactionAsTextDoesTheSame) {
  Create();
  const Transaction first = Changes({}, AllRows());
  Transaction second;
  const std::vector<Row> rows = testing::EdgeRows(family());
  for (size_t i = 0; i < rows.size(); i += 3) second.Delete(rows[i]);
  for (const proxy::SetIndex set : kRangeSets) {
    const std::vector<Row> ranges = RangeRows(family(), set);
    for (const size_t i : {0, 1, 4, 5}) second.Delete(ranges[i]);
  }
  Commit(first);
  Commit(second);

  ASSERT_OK(RunNft(*fresh_netns_, TableText(table())));
  ASSERT_OK(RunNft(*fresh_netns_, TransactionText(tables_, first)));
  ASSERT_OK(RunNft(*fresh_netns_, TransactionText(tables_, second)));
  for (const SetSpec& set : table().sets) {  // nft lists ranges in order of insertion.
    EXPECT_THAT(ListedElements(ListSet(*fresh_netns_, set)),
                UnorderedElementsAreArray(ListedElements(ListSet(*netns_, set))))
        << set.name;
  }
}

TEST_P(ElementListingTest, CommentsThatNftCouldNotReadArePrintedWithQuestionMarks) {
  ASSERT_OK(RunNft(*fresh_netns_, TableText(table())));
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 1)
                      .Comment("a\"b\nc\td\x7f"
                               "e\\ $x *{};#'"));
  const std::string text = TransactionText(tables_, transaction);
  ASSERT_OK(RunNft(*fresh_netns_, text));
  EXPECT_THAT(List(*fresh_netns_), HasSubstr("comment \"a?b?c?d?e\\ $x *{};#'\""));
}

// Affinity records as rules write them, with a timeout.
TEST_P(ElementListingTest, S127RecordsListWithTheirTimesAndLoadAgain) {
  const std::string key = family() == Family::kIpv4 ? "10.0.0.7 . 0x1" : "0x7 . 0x1";
  const std::string data = family() == Family::kIpv4 ? "0.1.0.2" : "0x10002fffefffd";
  const std::string set = TableName() + " affinity ";
  for (const std::string timeout : {"1m30s", "1h30m", "1d", "3h"}) {
    Create();
    ASSERT_OK(RunNft(*netns_, "add element " + set + "{ " + key + " timeout " + timeout + " : " +
                                  data + " }\n"));
    const std::string listing = List(*netns_);
    EXPECT_THAT(listing, HasSubstr(key + " timeout " + timeout + " expires "));
    ASSERT_OK(LoadFresh(listing));
    EXPECT_THAT(List(*fresh_netns_), HasSubstr(key + " timeout " + timeout + " expires "));
    ASSERT_OK_AND_ASSIGN(const auto records, kernel_->ReadSet({family(), proxy::kAffinity}));
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0], testing::RecordRow(family(), 7, 1, proxy::Choice(1, 2)).Read());
  }
}

}  // namespace
}  // namespace svcmap::nft
