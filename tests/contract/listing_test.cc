// Tests of svcmapd's tables as listed by nft(8). `nft list` prints the same text as TableText, and
// nft can load this text again. Operators and other software use nft on nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/ruleset/descriptor.h"
#include "tests/contract/instructions.h"
#include "tests/contract/listing_world.h"
#include "tests/contract/rows.h"
#include "tests/support/raw_nft.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::NetNs;
using ::svcmap::testing::RunNft;

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
    return result.ok() ? testing::Instructions::Comparable(result->out + result->err) : "";
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
