#include "proxy/ruleset/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>

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

}  // namespace
}  // namespace svcmap::proxy
