#include "nft/expr/rule_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <variant>
#include <vector>

namespace svcmap::nft {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr NamedSet kSet = {4, "service-ips"};
const Key kService = {KeyPart::kDestination, KeyPart::kProtocol, KeyPart::kDestinationPort};

RuleBuilder Rule(Family family) { return RuleBuilder(family, "services"); }
IpPrefix Prefix(std::string_view text) { return *IpPrefix::Parse(text); }

Bytes HostOrder(uint32_t value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

template <typename T>
const T& At(const RuleSpec& rule, size_t index) {
  return std::get<T>(rule.exprs.at(index));
}

template <typename T>
std::vector<T> All(const RuleSpec& rule) {
  std::vector<T> found;
  for (const Expr& expr : rule.exprs) {
    if (const T* match = std::get_if<T>(&expr)) found.push_back(*match);
  }
  return found;
}

TEST(RuleBuilderTest, TheTextIsWhatAPersonWouldType) {
  const auto both = [](const auto& build) {
    RuleBuilder v4 = Rule(Family::kIpv4), v6 = Rule(Family::kIpv6);
    build(v4);
    build(v6);
    return std::pair(v4.Build().text, v6.Build().text);
  };
  const auto expect = [&](const auto& build, const std::string& v4, const std::string& v6) {
    EXPECT_EQ(both(build), std::pair(v4, v6));
  };
  expect([](RuleBuilder& r) { r.ConntrackNew().Jump("a"); }, "ct state new jump a",
         "ct state new jump a");
  expect([](RuleBuilder& r) { r.ConntrackDnat().Drop(); }, "ct status dnat drop",
         "ct status dnat drop");
  expect([](RuleBuilder& r) { r.MarkHas(0x4000).Goto("b"); },
         "meta mark & 0x00004000 != 0x00000000 goto b",
         "meta mark & 0x00004000 != 0x00000000 goto b");
  expect([](RuleBuilder& r) { r.MarkOr(0x4000).MarkXor(0x4000); },
         "meta mark set meta mark | 0x00004000 meta mark set meta mark ^ 0x00004000",
         "meta mark set meta mark | 0x00004000 meta mark set meta mark ^ 0x00004000");
  expect([](RuleBuilder& r) { r.In(kService, kSet).RejectPortUnreachable(); },
         "ip daddr . meta l4proto . th dport @service-ips reject",
         "ip6 daddr . meta l4proto . th dport @service-ips reject");
  expect(
      [](RuleBuilder& r) {
        r.In({KeyPart::kSource, KeyPart::kDestination}, kSet);
      },
      "ip saddr . ip daddr @service-ips", "ip6 saddr . ip6 daddr @service-ips");
  expect([](RuleBuilder& r) { r.MasqueradeFullyRandom(); }, "masquerade fully-random",
         "masquerade fully-random");
  expect([](RuleBuilder& r) { r.RewriteDestination(kService, kSet); },
         "ip daddr set ip daddr . meta l4proto . th dport map @service-ips",
         "ip6 daddr set ip6 daddr . meta l4proto . th dport map @service-ips");
  expect([](RuleBuilder& r) { r.DnatToRandomSlot(7, kSet); },
         "meta l4proto { tcp, udp, sctp } dnat ip to @nh,136,24 . numgen random mod 7 map "
         "@service-ips",
         "meta l4proto { tcp, udp, sctp } dnat ip6 to @nh,288,32 . numgen random mod 7 map "
         "@service-ips");
  expect(
      [](RuleBuilder& r) {
        r.GotoByFirstDestinationByte({{1, "pick-1"}, {65, "pick-2"}});
      },
      "@nh,128,8 vmap { 1 : goto pick-1, 65 : goto pick-2 }",
      "@nh,192,8 vmap { 1 : goto pick-1, 65 : goto pick-2 }");
}

TEST(RuleBuilderTest, TheRuleBelongsToItsChain) {
  EXPECT_EQ(RuleBuilder(Family::kIpv4, "dispatch").Drop().Build().chain, "dispatch");
}

TEST(RuleBuilderTest, APrefixIsMaskedAndCompared) {
  const RuleSpec rule = Rule(Family::kIpv4).SourceNotIn(Prefix("10.244.0.0/14")).Build();
  EXPECT_EQ(rule.text, "ip saddr != 10.244.0.0/14");
  ASSERT_EQ(rule.exprs.size(), 3u);
  EXPECT_EQ(At<PayloadLoad>(rule, 0).offset, 12u);
  EXPECT_EQ(At<Bitwise>(rule, 1).mask, (Bytes{255, 252, 0, 0}));
  EXPECT_EQ(At<Compare>(rule, 2).value, (Bytes{10, 244, 0, 0}));
  EXPECT_FALSE(At<Compare>(rule, 2).equal);
}

TEST(RuleBuilderTest, AnIpv6PrefixIsMaskedAndCompared) {
  const RuleSpec rule = Rule(Family::kIpv6).DestinationIn(Prefix("4000::/2")).Build();
  EXPECT_EQ(rule.text, "ip6 daddr 4000::/2");
  EXPECT_EQ(At<PayloadLoad>(rule, 0).offset, 24u);
  EXPECT_EQ(At<PayloadLoad>(rule, 0).size, 16u);
  Bytes mask(16), value(16);
  mask[0] = 0xc0;
  value[0] = 0x40;
  EXPECT_EQ(At<Bitwise>(rule, 1).mask, mask);
  EXPECT_EQ(At<Compare>(rule, 2).value, value);
  EXPECT_TRUE(At<Compare>(rule, 2).equal);
}

TEST(RuleBuilderTest, AHostPrefixNeedsNoMaskAndPrintsAsAnAddress) {
  const RuleSpec rule = Rule(Family::kIpv4).DestinationIn(Prefix("10.0.0.1/32")).Build();
  EXPECT_EQ(rule.text, "ip daddr 10.0.0.1");
  EXPECT_EQ(rule.exprs.size(), 2u);
}

TEST(RuleBuilderTest, MarksAreComparedInHostOrder) {
  const RuleSpec rule = Rule(Family::kIpv4).MarkHas(0x4000).Build();
  EXPECT_EQ(At<Bitwise>(rule, 1).mask, HostOrder(0x4000));
  EXPECT_EQ(At<Compare>(rule, 2).value, HostOrder(0));
}

TEST(RuleBuilderTest, SettingMarkBitsKeepsTheOthers) {
  const RuleSpec set = Rule(Family::kIpv4).MarkOr(0x4000).Build();
  EXPECT_EQ(At<Bitwise>(set, 1).mask, HostOrder(~uint32_t{0x4000}));
  EXPECT_EQ(At<Bitwise>(set, 1).xor_with, HostOrder(0x4000));
  const RuleSpec flip = Rule(Family::kIpv4).MarkXor(0x4000).Build();
  EXPECT_EQ(At<Bitwise>(flip, 1).mask, HostOrder(~uint32_t{0}));
  EXPECT_EQ(At<Bitwise>(flip, 1).xor_with, HostOrder(0x4000));
}

TEST(RuleBuilderTest, KeyPartsLieOneBehindAnotherInRegisters) {
  const RuleSpec v4 = Rule(Family::kIpv4).In(kService, kSet).Build();
  EXPECT_EQ(At<PayloadLoad>(v4, 0).reg, 0u);
  EXPECT_EQ(At<MetaLoad>(v4, 1).reg, 1u);
  EXPECT_EQ(At<PayloadLoad>(v4, 2).reg, 2u);
  EXPECT_EQ(At<PayloadLoad>(v4, 2).offset, 2u);  // The destination port.
  const RuleSpec v6 = Rule(Family::kIpv6).In(kService, kSet).Build();
  EXPECT_EQ(At<PayloadLoad>(v6, 0).reg, 0u);
  EXPECT_EQ(At<MetaLoad>(v6, 1).reg, 4u);
  EXPECT_EQ(At<PayloadLoad>(v6, 2).reg, 5u);
}

TEST(RuleBuilderTest, ALookUpInASetReturnsNothing) {
  const Lookup lookup = All<Lookup>(Rule(Family::kIpv4).In(kService, kSet).Build()).at(0);
  EXPECT_EQ(lookup.into, Lookup::Into::kNothing);
  EXPECT_FALSE(lookup.anonymous);
  EXPECT_EQ(lookup.set, kSet.index);
}

TEST(RuleBuilderTest, ARewriteTakesItsDataFromBehindTheKey) {
  for (const Family family : kFamilies) {
    SCOPED_TRACE(FamilyName(family));
    const uint32_t words = family == Family::kIpv4 ? 1 : 4;
    const RuleSpec rule = Rule(family).RewriteDestination(kService, kSet).Build();
    const Lookup lookup = All<Lookup>(rule).at(0);
    EXPECT_EQ(lookup.into, Lookup::Into::kRegister);
    EXPECT_EQ(lookup.data_reg, words + 2);
    const AddressWrite write = All<AddressWrite>(rule).at(0);
    EXPECT_EQ(write.reg, lookup.data_reg);
    EXPECT_EQ(write.offset, family == Family::kIpv4 ? 16u : 24u);
    EXPECT_EQ(write.size, words * 4);
  }
}

TEST(RuleBuilderTest, TheGroupIsTheEndOfTheDestination) {
  for (const Family family : kFamilies) {
    SCOPED_TRACE(FamilyName(family));
    const RuleSpec rule = Rule(family).DnatToRandomSlot(9, kSet).Build();
    const PayloadLoad load = All<PayloadLoad>(rule).at(0);
    const uint32_t end = family == Family::kIpv4 ? 20 : 40;
    EXPECT_EQ(load.offset + load.size, end);
    EXPECT_EQ(load.size, family == Family::kIpv4 ? 3u : 4u);
    EXPECT_EQ(load.reg, 0u);
    const RandomNumber random = All<RandomNumber>(rule).at(0);
    EXPECT_EQ(random.reg, 1u);
    EXPECT_EQ(random.modulus, 9u);
  }
}

TEST(RuleBuilderTest, DnatFindsThePortBehindTheAddress) {
  for (const Family family : kFamilies) {
    SCOPED_TRACE(FamilyName(family));
    const RuleSpec rule = Rule(family).DnatToRandomSlot(9, kSet).Build();
    const Lookup lookup = All<Lookup>(rule).at(1);
    const Dnat dnat = All<Dnat>(rule).at(0);
    EXPECT_EQ(dnat.family, family);
    EXPECT_EQ(dnat.address_reg, lookup.data_reg);
    EXPECT_EQ(dnat.port_reg, lookup.data_reg + (family == Family::kIpv4 ? 1 : 4));
    EXPECT_LE(dnat.port_reg, 15u);
  }
}

TEST(RuleBuilderTest, DnatIsForTcpUdpAndSctpOnly) {
  const RuleSpec rule = Rule(Family::kIpv4).DnatToRandomSlot(1, kSet).Build();
  ASSERT_EQ(rule.sets.size(), 1u);
  Bytes protocols;
  for (const AnonymousSet::Entry& entry : rule.sets[0].entries) {
    EXPECT_EQ(entry.goto_chain, "");
    protocols.push_back(entry.key.at(0));
  }
  EXPECT_EQ(protocols, (Bytes{6, 17, 132}));
  EXPECT_TRUE(All<Lookup>(rule).at(0).anonymous);
}

TEST(RuleBuilderTest, EachByteGoesToItsChain) {
  const RuleSpec rule =
      Rule(Family::kIpv6).GotoByFirstDestinationByte({{1, "pick-1"}, {200, "pick-2"}}).Build();
  ASSERT_EQ(rule.sets.size(), 1u);
  EXPECT_EQ(rule.sets[0].key, Field::kRaw8);
  EXPECT_EQ(rule.sets[0].entries.at(1).key, (Bytes{200}));
  EXPECT_EQ(rule.sets[0].entries.at(1).goto_chain, "pick-2");
  EXPECT_EQ(At<PayloadLoad>(rule, 0).offset, 24u);
  EXPECT_EQ(At<PayloadLoad>(rule, 0).size, 1u);
  EXPECT_EQ(At<Lookup>(rule, 1).into, Lookup::Into::kVerdict);
}

TEST(RuleBuilderTest, VerdictsNameTheirChains) {
  const RuleSpec rule = Rule(Family::kIpv4).Jump("a").Goto("b").Drop().Build();
  EXPECT_EQ(At<Verdict>(rule, 0).kind, Verdict::Kind::kJump);
  EXPECT_EQ(At<Verdict>(rule, 0).chain, "a");
  EXPECT_EQ(At<Verdict>(rule, 1).kind, Verdict::Kind::kGoto);
  EXPECT_EQ(At<Verdict>(rule, 1).chain, "b");
  EXPECT_EQ(At<Verdict>(rule, 2).kind, Verdict::Kind::kDrop);
}

TEST(RuleBuilderTest, RejectIsOfItsFamily) {
  for (const Family family : kFamilies) {
    EXPECT_EQ(At<Reject>(Rule(family).RejectPortUnreachable().Build(), 0).family, family);
  }
}

}  // namespace
}  // namespace svcmap::nft
