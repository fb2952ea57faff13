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

TEST(DescriptorTest, TheFirstByteTellsKindAndClass) {
  std::set<uint8_t> bytes;
  for (const DispatchKind kind : kKinds) {
    for (unsigned pick = 0; pick <= kMaxPickClass; ++pick) {
      EXPECT_TRUE(bytes.insert(DescriptorByte(kind, pick)).second) << pick;
      const uint32_t endpoints = pick == 0 ? 0 : PickCapacity(pick);
      const Descriptor descriptor{.kind = kind, .endpoints = endpoints, .group = 1};
      for (const char* address : {"10.96.0.1", "fd00:96::1"}) {
        EXPECT_EQ(descriptor.For(Ip(address)).bytes()[0], DescriptorByte(kind, pick));
      }
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

TEST(DescriptorTest, AnIpv4DescriptorIsClassAndGroup) {
  const IpAddress address = Ip("10.96.0.1");
  const auto text = [&](const Descriptor& descriptor) {
    return descriptor.For(address).ToString();
  };
  using Kind = DispatchKind;
  EXPECT_EQ(text({Kind::kInternal, 3, 1, {}}), "3.0.0.1");
  EXPECT_EQ(text({Kind::kExternal, 3, 0x010203, {}}), "67.1.2.3");
  EXPECT_EQ(text({Kind::kExternalLocal, 3, 0x010203, {}}), "131.1.2.3");
  EXPECT_EQ(text({Kind::kInternal, 1, kMaxGroup, {}}), "1.255.255.255");
  EXPECT_EQ(text({Kind::kExternalLocal, kMaxEndpoints, 1, {}}), "165.0.0.1");
  EXPECT_EQ(text({}), "0.0.0.0") << "drop";
}

TEST(DescriptorTest, WithAffinityKindSetAndTimerStandInFrontOfTheGroup) {
  const IpAddress address = Ip("10.96.0.1");
  const auto text = [&](DispatchKind kind, Descriptor::Sticky sticky) {
    return Descriptor{.kind = kind, .endpoints = 2, .group = 0x0102, .sticky = sticky}
        .For(address)
        .ToString();
  };
  EXPECT_EQ(text(DispatchKind::kInternal, {.timer = 0, .local = false}), "194.0.1.2");
  EXPECT_EQ(text(DispatchKind::kInternal, {.timer = 0, .local = true}), "194.32.1.2");
  EXPECT_EQ(text(DispatchKind::kExternal, {.timer = 5, .local = false}), "194.69.1.2");
  EXPECT_EQ(text(DispatchKind::kExternalLocal, {.timer = 31, .local = true}), "194.191.1.2");
}

TEST(DescriptorTest, EveryTimerFitsInFrontOfTheGroup) { EXPECT_LE(kMaxTimers, 32u); }

TEST(DescriptorTest, AnIpv6DescriptorHasTheGroupInItsLastFourBytes) {
  const auto bytes = [](const Descriptor& descriptor) {
    const IpAddress address = descriptor.For(Ip("fd00:96::1"));
    std::vector<uint8_t> all(address.bytes().begin(), address.bytes().end());
    // Remove the two bytes that adjust the checksum.
    all.erase(all.begin() + 10, all.begin() + 12);
    return all;
  };
  EXPECT_EQ(bytes({.kind = DispatchKind::kExternal, .endpoints = 5, .group = 0x010203}),
            (std::vector<uint8_t>{0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(bytes({.kind = DispatchKind::kExternal,
                   .endpoints = 5,
                   .group = 0x0102,
                   .sticky = Descriptor::Sticky{.timer = 3, .local = true}}),
            (std::vector<uint8_t>{0xc5, 0, 0x3a, 0xff, 0, 0, 0, 0, 0, 0, 0, 0x63, 1, 2}));
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

TEST(DescriptorTest, AKindIsAPrefixOfItsDescriptorsOnly) {
  constexpr DispatchKind kFirstBytes[] = {DispatchKind::kInternal, DispatchKind::kExternal,
                                          DispatchKind::kExternalLocal, DispatchKind::kSticky};
  for (const Family family : kFamilies) {
    const IpAddress address = family == Family::kIpv4 ? Ip("10.96.0.1") : Ip("fd00:96::1");
    for (const DispatchKind other : kFirstBytes) {
      const IpPrefix prefix = DescriptorPrefix(family, other);
      EXPECT_EQ(prefix.length(), 2);
      for (const uint32_t endpoints : {1u, kMaxEndpoints}) {
        for (const DispatchKind kind : kKinds) {
          Descriptor descriptor{.kind = kind, .endpoints = endpoints, .group = kMaxStickyGroup};
          EXPECT_EQ(prefix.Contains(descriptor.For(address)), kind == other);
          descriptor.sticky = {.timer = 31, .local = true};
          EXPECT_EQ(prefix.Contains(descriptor.For(address)), other == DispatchKind::kSticky);
        }
      }
    }
  }
}

// The test masks a descriptor as the rules do. One mask selects the kind, and the other mask
// selects the timer and the endpoint set.
TEST(DescriptorTest, AStickyPatternFindsTheByteInFrontOfTheGroup) {
  for (const Family family : kFamilies) {
    const IpAddress address = family == Family::kIpv4 ? Ip("10.96.0.1") : Ip("fd00:96::1");
    const Descriptor::Sticky sticky{.timer = 9, .local = true};
    const IpAddress descriptor = Descriptor{.kind = DispatchKind::kExternal,
                                            .endpoints = 4,
                                            .group = kMaxStickyGroup,
                                            .sticky = sticky}
                                     .For(address);
    const uint8_t first = DescriptorByte(DispatchKind::kSticky, 4);
    const IpAddress mask = StickyPattern(family, 0xff, 0xff);
    const IpAddress value =
        StickyPattern(family, first, StickyByte(DispatchKind::kExternal, sticky));
    for (size_t i = 0; i < address.size(); ++i) {
      EXPECT_EQ(descriptor.bytes()[i] & mask.bytes()[i], value.bytes()[i]) << i;
    }
  }
}

TEST(ChoiceTest, IsPortAndEndpointAndNeverLooksLikeADescriptorWithAffinity) {
  EXPECT_EQ(Choice(0x0102, 0x0304), 0x01020304u);
  EXPECT_LT(Choice(kMaxStickyPort, kMaxStickyEndpoint) >> 24,
            DescriptorByte(DispatchKind::kSticky, 0));
}

}  // namespace
}  // namespace svcmap::proxy
