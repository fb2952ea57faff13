#include "proxy/ruleset/descriptor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "proxy/ruleset/table.h"

namespace svcmap::proxy {
namespace {

constexpr DispatchKind kKinds[] = {DispatchKind::kPlain, DispatchKind::kExternal};

IpAddress Ip(std::string_view text) { return *IpAddress::Parse(text); }

// The worst case of a class: one endpoint more than the class below holds.
double WorstMiss(unsigned pick_class) {
  return 1.0 - static_cast<double>(PickCapacity(pick_class - 1) + 1) / PickCapacity(pick_class);
}

TEST(PickClassTest, CapacitiesAscend) {
  for (unsigned pick = 2; pick <= kMaxPickClass; ++pick) {
    EXPECT_GT(PickCapacity(pick), PickCapacity(pick - 1)) << pick;
  }
}

TEST(PickClassTest, TheFirstClassesAreExact) {
  for (unsigned pick = 1; pick <= kMaxExactClass; ++pick) EXPECT_EQ(PickCapacity(pick), pick);
}

TEST(PickClassTest, TheLastClassHoldsTheMaximum) {
  EXPECT_EQ(PickCapacity(kMaxPickClass), kMaxEndpoints);
}

TEST(PickClassTest, EveryNumberOfEndpointsGetsTheSmallestClassThatFits) {
  unsigned expected = 1;
  for (uint32_t endpoints = 1; endpoints <= kMaxEndpoints; ++endpoints) {
    while (PickCapacity(expected) < endpoints) ++expected;
    ASSERT_EQ(PickClassFor(endpoints), expected) << endpoints;
  }
  EXPECT_EQ(expected, kMaxPickClass);
}

TEST(PickClassTest, CapacitiesGrowByAtMostAHalf) {
  for (unsigned pick = kMaxExactClass + 1; pick <= kMaxPickClass; ++pick) {
    EXPECT_LE(PickCapacity(pick), PickCapacity(pick - 1) * 1.5) << pick;
  }
}

TEST(PickClassTest, ADrawMissesLessOftenThanOnceInThree) {
  for (unsigned pick = kMaxExactClass + 1; pick <= kMaxPickClass; ++pick) {
    EXPECT_LT(WorstMiss(pick), 0.33) << pick;
  }
}

// A miss of all draws takes slot 0, so their number bounds how uneven the pick can be.
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

TEST(DescriptorTest, TheFirstByteTellsKindAndClass) {
  std::set<uint8_t> bytes;
  for (const DispatchKind kind : kKinds) {
    for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
      EXPECT_TRUE(bytes.insert(DescriptorByte(kind, pick)).second) << pick;
      for (const char* address : {"10.96.0.1", "fd00:96::1"}) {
        EXPECT_EQ(Descriptor(Ip(address), kind, pick, 1).bytes()[0], DescriptorByte(kind, pick));
      }
    }
  }
}

TEST(DescriptorTest, EveryClassFitsIntoItsSixBits) { EXPECT_LT(kMaxPickClass, 64u); }

TEST(DescriptorTest, AnIpv4DescriptorIsClassAndGroup) {
  const IpAddress address = Ip("10.96.0.1");
  EXPECT_EQ(Descriptor(address, DispatchKind::kPlain, 3, 1), Ip("3.0.0.1"));
  EXPECT_EQ(Descriptor(address, DispatchKind::kExternal, 3, 0x010203), Ip("67.1.2.3"));
  EXPECT_EQ(Descriptor(address, DispatchKind::kPlain, 1, kMaxGroup), Ip("1.255.255.255"));
}

TEST(DescriptorTest, AnIpv6DescriptorHasTheGroupInItsLastFourBytes) {
  const IpAddress descriptor = Descriptor(Ip("fd00:96::1"), DispatchKind::kExternal, 5, 0x010203);
  const auto bytes = descriptor.bytes();
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + 10),
            (std::vector<uint8_t>{0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + 12, bytes.end()),
            (std::vector<uint8_t>{0, 1, 2, 3}));
}

// As a checksum sees it: the one's complement sum of the 16-bit words, where 0 and 0xffff are one.
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
    const IpAddress descriptor =
        Descriptor(address, kKinds[i % 2], 1 + random() % kMaxPickClass, 1 + random() % kMaxGroup);
    ASSERT_EQ(Sum(descriptor), Sum(address)) << address.ToString() << " " << descriptor.ToString();
  }
  const IpAddress all_ones = Ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  EXPECT_EQ(Sum(Descriptor(all_ones, DispatchKind::kPlain, 1, 1)), Sum(all_ones));
}

TEST(DescriptorTest, DescriptorsOfAnAddressDifferByKindClassAndGroup) {
  for (const char* text : {"10.96.0.1", "fd00:96::1"}) {
    std::set<IpAddress> seen;
    for (const DispatchKind kind : kKinds) {
      for (const unsigned pick : {1u, 2u, kMaxPickClass}) {
        for (const uint32_t group : {1u, 2u, 0x100u, 0x10000u, kMaxGroup}) {
          EXPECT_TRUE(seen.insert(Descriptor(Ip(text), kind, pick, group)).second);
        }
      }
    }
  }
}

TEST(DescriptorTest, AKindIsAPrefixOfItsDescriptorsOnly) {
  for (const Family family : kFamilies) {
    const IpAddress address = family == Family::kIpv4 ? Ip("10.96.0.1") : Ip("fd00:96::1");
    for (const DispatchKind kind : kKinds) {
      for (const DispatchKind other : kKinds) {
        const IpPrefix prefix = DescriptorPrefix(family, other);
        EXPECT_EQ(prefix.length(), 2);
        for (const unsigned pick : {1u, kMaxPickClass}) {
          EXPECT_EQ(prefix.Contains(Descriptor(address, kind, pick, kMaxGroup)), kind == other);
        }
      }
    }
  }
}

}  // namespace
}  // namespace svcmap::proxy
