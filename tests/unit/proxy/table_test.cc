#include "proxy/ruleset/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <variant>

#include "proxy/diff/chains.h"

namespace svcmap::proxy {
namespace {

// Linux 5.10 and 6.1 reject a lookup in a map that does not read the data, with EINVAL.
TEST(TableTest, LookupsInMapsReadTheData) {
  for (const TcpResets resets : {TcpResets::kOff, TcpResets::kLoose, TcpResets::kStrict}) {
    for (const nft::TableSpec& table :
         MakeTables({.count_connections = true, .tcp_resets = resets, .answer_ping = true})) {
      for (const nft::RuleSpec& rule : table.rules) {
        for (const nft::Expr& expr : rule.exprs) {
          const auto* lookup = std::get_if<nft::Lookup>(&expr);
          if (lookup == nullptr || lookup->anonymous) continue;
          if (lookup->into != nft::Lookup::Into::kNothing) continue;
          EXPECT_TRUE(table.sets[lookup->set].data.empty()) << rule.chain << ": " << rule.text;
        }
      }
    }
  }
}

// Kernels before Linux 6.17 can miss a key of a map while its data is replaced. The second rule is
// identical and immediately follows the first one.
TEST(TableTest, LookupsOfDescriptorsAreRepeatedOnRequest) {
  const auto lookups = [](bool repeated) {
    std::map<std::string, int> rules;  // By chain and text.
    for (const nft::RuleSpec& rule :
         MakeTable(Family::kIpv4, {.repeat_lookups = repeated, .port_ranges = true}).rules) {
      for (const char* map : {"@service-ips", "@local-sets", "@range-ports", "@range-blocks"}) {
        if (rule.text.find(map) != std::string::npos) ++rules[rule.chain + ": " + rule.text];
      }
    }
    return rules;
  };
  const std::map<std::string, int> once = lookups(false);
  const std::map<std::string, int> twice = lookups(true);
  EXPECT_EQ(once.size(), 13u);
  ASSERT_EQ(once.size(), twice.size());
  for (const auto& [rule, count] : once) {
    EXPECT_EQ(count, 1) << rule;
    EXPECT_EQ(twice.at(rule), 2) << rule;
  }
}

// The kernel rejects the deletion of a set that a rule uses.
TEST(TableTest, AllChainsThatUseAReplacedSetAreRewritten) {
  const RulesetOptions options = {
      .count_connections = true, .answer_ping = true, .port_ranges = true};
  for (const Family family : kFamilies) {
    const auto spec = std::make_shared<nft::TableSpec>(MakeTable(family, options));
    for (size_t set = 0; set < spec->sets.size(); ++set) {
      nft::ChainRepair repair{.family = family, .spec = spec};
      ReplaceSet(static_cast<SetIndex>(set), repair);
      for (const nft::RuleSpec& rule : spec->rules) {
        const std::string text = rule.text + " ";
        if (text.find("@" + spec->sets[set].name + " ") == std::string::npos) continue;
        EXPECT_THAT(repair.rewrite, ::testing::Contains(rule.chain)) << rule.text;
      }
    }
  }
}

}  // namespace
}  // namespace svcmap::proxy
