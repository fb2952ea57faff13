#include "proxy/ruleset/descriptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <variant>

#include "proxy/diff/chains.h"
#include "proxy/ruleset/table.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

constexpr DispatchKind kKinds[] = {DispatchKind::kInternal, DispatchKind::kExternal,
                                   DispatchKind::kExternalLocal};

using test::Ip;

// Returns the maximum probability that a random pick of a pick class misses. A pick misses most
// often if the number of endpoints exceeds the capacity of the next lower class by one.
double WorstMiss(unsigned pick_class) {
  return 1.0 - static_cast<double>(PickCapacity(pick_class - 1) + 1) / PickCapacity(pick_class);
}

TEST(PickClassTest, EveryNumberOfEndpointsGetsTheSmallestClassThatFits) {
  unsigned expected = 1;
  for (uint32_t endpoints = 1; endpoints <= kMaxEndpoints; ++endpoints) {
    while (PickCapacity(expected) < endpoints) ++expected;
    ASSERT_EQ(PickClassFor(endpoints), expected) << endpoints;
  }
  EXPECT_EQ(expected, kMaxPickClass);
}

// If all random picks miss, the rules use slot 0. The probability that all picks miss limits the
// imbalance between endpoints.
TEST(PickClassTest, AllDrawsOfASizeClassMissLessOftenThanSixInAMillion) {
  for (const Family family : kFamilies) {
    const nft::TableSpec table = MakeTable(family, {});
    std::map<std::string, int> rules;
    for (const nft::RuleSpec& rule : table.rules) ++rules[rule.chain + ": " + rule.text];
    for (unsigned pick = kMaxExactClass + 1; pick <= kMaxPickClass; ++pick) {
      const std::string capacity = std::to_string(PickCapacity(pick));
      const int draws = rules["pick-" + capacity + ": jump draw-" + capacity];
      EXPECT_GT(draws, 0) << capacity;
      EXPECT_LT(std::pow(WorstMiss(pick), draws), 6e-6) << capacity;
    }
  }
}

TEST(DescriptorTest, EveryClassFitsIntoItsSixBits) {
  std::set<unsigned> classes;
  for (const PickBy pick_by : {PickBy::kClient, PickBy::kClientAndPort}) {
    for (const uint32_t slots : kHashTableSizes) {
      const unsigned hash_class = HashClass(pick_by, slots);
      EXPECT_GT(hash_class, kMaxPickClass);
      EXPECT_LT(hash_class, 64u);
      EXPECT_TRUE(classes.insert(hash_class).second) << slots;
    }
  }
}

TEST(DescriptorTest, AHashTableHasItsOwnClassExceptWithAffinityOrWithoutEndpoints) {
  Descriptor descriptor{.endpoints = 1021, .group = 5, .pick_by = PickBy::kClient, .sticky = {}};
  const auto class_of = [&] { return descriptor.For(*IpAddress::Parse("10.96.0.1")).bytes()[0]; };
  EXPECT_EQ(class_of(), HashClass(PickBy::kClient, 1021));
  descriptor.endpoints = 0;
  EXPECT_EQ(class_of(), 0);
  descriptor.endpoints = 251;
  descriptor.sticky = Descriptor::Sticky{};
  EXPECT_EQ(class_of(), DescriptorByte(DispatchKind::kSticky, PickClassFor(251)));
}

// Returns the address's contribution to the checksum: the one's complement sum of its 16-bit words,
// where 0 and 0xffff are equal.
uint32_t Sum(const IpAddress& address) {
  uint32_t sum = 0;
  for (size_t i = 0; i < address.size(); i += 2) {
    sum += address.bytes()[i] << 8 | address.bytes()[i + 1];
  }
  return sum % 0xffff;
}

TEST(DescriptorTest, AnIpv6DescriptorHasTheChecksumOfItsAddress) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    uint8_t bytes[16];
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 4 == 0 ? 0xff : random());
    if (i % 3 == 0) std::fill(bytes + 2, bytes + 14, uint8_t{0});
    const IpAddress address = *IpAddress::FromBytes(bytes);
    Descriptor wanted{.kind = kKinds[i % 3],
                      .endpoints = static_cast<uint32_t>(random() % (kMaxEndpoints + 1)),
                      .group = static_cast<uint32_t>(random() % (kMaxStickyGroup + 1))};
    if (i % 2 == 0) {
      wanted.sticky = {.timer = static_cast<uint8_t>(random() % kMaxTimers), .local = i % 4 == 0};
    }
    const IpAddress descriptor = wanted.For(address);
    ASSERT_EQ(Sum(descriptor), Sum(address)) << address.ToString() << " " << descriptor.ToString();
    if (!wanted.sticky) continue;
    // A choice and its complement overwrite the first 8 bytes.
    const uint32_t choice = Choice(1 + random() % kMaxStickyPort, random() % kMaxStickyEndpoint);
    std::copy(descriptor.bytes().begin(), descriptor.bytes().end(), bytes);
    for (int byte = 0; byte < 4; ++byte) {
      bytes[byte] = static_cast<uint8_t>(choice >> (24 - 8 * byte));
      bytes[byte + 4] = static_cast<uint8_t>(~bytes[byte]);
    }
    ASSERT_EQ(Sum(*IpAddress::FromBytes(bytes)), Sum(address)) << descriptor.ToString();
  }
  const IpAddress all_ones = Ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  EXPECT_EQ(Sum(Descriptor{.endpoints = 1, .group = 1}.For(all_ones)), Sum(all_ones));
  EXPECT_EQ(Sum(Descriptor{}.For(all_ones)), Sum(all_ones));
}

TEST(DescriptorTest, DescriptorsOfAnAddressDifferByKindClassGroupSetAndTimer) {
  for (const char* text : {"10.96.0.1", "fd00:96::1"}) {
    std::set<IpAddress> seen;
    for (const DispatchKind kind : kKinds) {
      for (const uint32_t endpoints : {1u, 2u, kMaxEndpoints}) {
        for (const uint32_t group : {1u, 2u, 0x100u, 0x10000u, kMaxGroup}) {
          const Descriptor descriptor{.kind = kind, .endpoints = endpoints, .group = group};
          EXPECT_TRUE(seen.insert(descriptor.For(Ip(text))).second);
        }
        for (const uint32_t group : {1u, 2u, 0x100u, kMaxStickyGroup}) {
          for (const bool local : {false, true}) {
            for (const uint8_t timer : {0, 1, 31}) {
              const Descriptor descriptor{.kind = kind,
                                          .endpoints = endpoints,
                                          .group = group,
                                          .sticky = Descriptor::Sticky{timer, local}};
              EXPECT_TRUE(seen.insert(descriptor.For(Ip(text))).second);
            }
          }
        }
      }
    }
  }
}

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

// Returns how many chains a kernel visits that follows every path from the base chains.
int64_t VisitedChains(const nft::TableSpec& table) {
  std::map<std::string, std::vector<std::string>> next;  // Targets of the rules of a chain.
  for (const nft::RuleSpec& rule : table.rules) {
    for (const nft::Expr& expr : rule.exprs) {
      const auto* verdict = std::get_if<nft::Verdict>(&expr);
      if (verdict && !verdict->chain.empty()) next[rule.chain].push_back(verdict->chain);
    }
    for (const nft::AnonymousSet& set : rule.sets) {
      for (const auto& entry : set.entries) {
        if (!entry.goto_chain.empty()) next[rule.chain].push_back(entry.goto_chain);
      }
    }
  }
  std::map<std::string, int64_t> visited;
  const std::function<int64_t(const std::string&)> visits = [&](const std::string& chain) {
    int64_t& sum = visited[chain];
    if (sum > 0) return sum;
    int64_t count = 1;
    for (const std::string& target : next[chain]) count += visits(target);
    return visited[chain] = count;
  };
  int64_t sum = 0;
  for (const nft::ChainSpec& chain : table.chains) {
    if (chain.base) sum += visits(chain.name);
  }
  return sum;
}

// Kernels such as 5.10 validate a chain again for each path to it. They are also the kernels with
// repeated lookups. docs/operations.md states these numbers.
TEST(TableTest, OldKernelsFollowALimitedNumberOfPaths) {
  const auto visits = [](const RulesetOptions& options, std::span<const uint32_t> timers) {
    return VisitedChains(MakeTable(Family::kIpv4, options, timers));
  };
  std::vector<uint32_t> timers(kMaxTimers);
  std::iota(timers.begin(), timers.end(), 1);
  const std::span<const uint32_t> one(timers.data(), 1);
  EXPECT_LE(visits({.repeat_lookups = false}, one), 120'000);
  EXPECT_LE(visits({.repeat_lookups = true}, one), 620'000);
  EXPECT_LE(visits({.repeat_lookups = true}, timers), 19'000'000);
  EXPECT_LE(visits({.repeat_lookups = true, .port_ranges = true}, one), 3'500'000);
  EXPECT_LE(visits({.repeat_lookups = true, .port_ranges = true}, timers), 107'000'000);
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
