// Tests of svcmapd's tables as listed by nft(8). `nft list` prints the same text as TableText, and
// nft can load this text again. Operators and other software use nft on nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proxy/ruleset/descriptor.h"
#include "tests/contract/listing_world.h"
#include "tests/contract/rows.h"
#include "tests/support/raw_nft.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::NetNs;
using ::svcmap::testing::RunNft;

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

}  // namespace
}  // namespace svcmap::nft
