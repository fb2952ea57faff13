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
  expect([](RuleBuilder& r) { r.ConntrackInvalid().Jump("a"); }, "ct state invalid jump a",
         "ct state invalid jump a");
  expect([](RuleBuilder& r) { r.TcpWithoutSynOrRst().In(kService, kSet).RejectWithTcpReset(); },
         "tcp flags ! syn,rst ip daddr . meta l4proto . tcp dport @service-ips "
         "reject with tcp reset",
         "tcp flags ! syn,rst ip6 daddr . meta l4proto . tcp dport @service-ips "
         "reject with tcp reset");
  expect([](RuleBuilder& r) { r.TcpSynWithoutAck().RejectWithTcpReset(); },
         "tcp flags syn / syn,ack reject with tcp reset",
         "tcp flags syn / syn,ack reject with tcp reset");
  expect([](RuleBuilder& r) { r.ConntrackDnat().Drop(); }, "ct status dnat drop",
         "ct status dnat drop");
  expect([](RuleBuilder& r) { r.ConntrackNotDnat().RestoreDestination(); },
         "ct status ! dnat ip daddr set ct original ip daddr",
         "ct status ! dnat ip6 daddr set ct original ip6 daddr");
  expect([](RuleBuilder& r) { r.ConntrackNotConfirmed().Jump("a"); },
         "ct status ! confirmed jump a", "ct status ! confirmed jump a");
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
  expect(
      [](RuleBuilder& r) {
        r.GotoByDestinationByte(0, {{1, "pick-1"}, {65, "pick-2"}});
      },
      "@nh,128,8 vmap { 1 : goto pick-1, 65 : goto pick-2 }",
      "@nh,192,8 vmap { 1 : goto pick-1, 65 : goto pick-2 }");
  expect([](RuleBuilder& r) { r.NotIn(kService, kSet).Return(); },
         "ip daddr . meta l4proto . th dport != @service-ips return",
         "ip6 daddr . meta l4proto . th dport != @service-ips return");
  expect(
      [](RuleBuilder& r) {
        r.RewriteDestination({KeyPart::kOriginalDestination, KeyPart::kProtocol}, kSet);
      },
      "ip daddr set ct original ip daddr . meta l4proto map @service-ips",
      "ip6 daddr set ct original ip6 daddr . meta l4proto map @service-ips");
  expect([](RuleBuilder& r) { r.SourceIsLocal().Drop(); }, "fib saddr type local drop",
         "fib saddr type local drop");
  expect([](RuleBuilder& r) { r.InputIs("cni0").InputIsNot("veth*"); },
         "iifname \"cni0\" iifname != \"veth*\"", "iifname \"cni0\" iifname != \"veth*\"");
}

TEST(RuleBuilderTest, TimeoutsPrintAsNftPrintsTimes) {
  const std::pair<uint32_t, const char*> kCases[] = {
      {1, "1s"},       {59, "59s"},      {60, "1m"},           {90, "1m30s"}, {3600, "1h"},
      {5400, "1h30m"}, {3661, "1h1m1s"}, {86399, "23h59m59s"}, {86400, "1d"}, {10800, "3h"}};
  for (const auto& [seconds, text] : kCases) {
    const RuleSpec rule = Rule(Family::kIpv4).Count(kService, kSet, seconds).Build();
    EXPECT_THAT(rule.text, ::testing::HasSubstr(" timeout " + std::string(text) + " counter }"));
    EXPECT_EQ(All<DynamicElement>(rule).at(0).timeout_seconds, seconds);
  }
}

// S-70: a packet from the node itself has no input interface. The interface name is all zeros, so
// it never equals a configured name.
TEST(RuleBuilderTest, S70AnInterfaceIsComparedWholeOrByItsStart) {
  const RuleSpec whole = Rule(Family::kIpv4).InputIsNot("cni0").Build();
  Bytes name = {'c', 'n', 'i', '0'};
  name.resize(16);
  EXPECT_EQ(At<MetaLoad>(whole, 0).key, MetaKey::kInputName);
  EXPECT_EQ(At<Compare>(whole, 1).value, name);
  EXPECT_FALSE(At<Compare>(whole, 1).equal);
  const RuleSpec start = Rule(Family::kIpv4).InputIs("veth*").Build();
  EXPECT_EQ(At<Compare>(start, 1).value, (Bytes{'v', 'e', 't', 'h'}));
  EXPECT_TRUE(At<Compare>(start, 1).equal);
}

TEST(RuleBuilderTest, TheSourceIsLocalByItsRouteType) {
  const RuleSpec rule = Rule(Family::kIpv6).SourceIsLocal().Build();
  EXPECT_TRUE(At<RouteTypeLoad>(rule, 0).source);
  EXPECT_EQ(At<RouteTypeLoad>(rule, 0).reg, 0u);
  EXPECT_EQ(At<Compare>(rule, 1).value, HostOrder(2));
  const RuleSpec destination = Rule(Family::kIpv6).DestinationIsNotLocal().Build();
  EXPECT_EQ(destination.text, "fib daddr type != local");
  EXPECT_FALSE(At<RouteTypeLoad>(destination, 0).source);
  EXPECT_FALSE(At<Compare>(destination, 1).equal);
  EXPECT_EQ(At<Compare>(destination, 1).value, HostOrder(2));
}

TEST(RuleBuilderTest, AnEchoRequestIsMatchedByProtocolAndType) {
  const RuleSpec v4 = Rule(Family::kIpv4).EchoRequest().Build();
  EXPECT_EQ(v4.text, "icmp type echo-request");
  EXPECT_EQ(At<MetaLoad>(v4, 0).key, MetaKey::kL4Proto);
  EXPECT_EQ(At<Compare>(v4, 1).value, (Bytes{1}));
  EXPECT_EQ(At<PayloadLoad>(v4, 2).header, Header::kTransport);
  EXPECT_EQ(At<PayloadLoad>(v4, 2).offset, 0u);
  EXPECT_EQ(At<Compare>(v4, 3).value, (Bytes{8}));
  const RuleSpec v6 = Rule(Family::kIpv6).EchoRequest().Build();
  EXPECT_EQ(v6.text, "icmpv6 type echo-request");
  EXPECT_EQ(At<Compare>(v6, 1).value, (Bytes{58}));
  EXPECT_EQ(At<Compare>(v6, 3).value, (Bytes{128}));
}

TEST(RuleBuilderTest, DnatToAMapWithoutPortsLeavesThePort) {
  const RuleSpec rule = Rule(Family::kIpv6).DnatTo({KeyPart::kProtocol}, kSet).Build();
  EXPECT_EQ(rule.text, "dnat to meta l4proto map @" + std::string(kSet.name));
  EXPECT_EQ(At<MetaLoad>(rule, 0).reg, 0u);
  EXPECT_EQ(At<Lookup>(rule, 1).data_reg, 1u) << "the key and the data must not overlap";
  EXPECT_EQ(At<Dnat>(rule, 2).address_reg, 1u);
  EXPECT_EQ(At<Dnat>(rule, 2).port_reg, std::nullopt);
}

TEST(RuleBuilderTest, ARateLimitMatchesPacketsAboveTheRate) {
  const RuleSpec rule = Rule(Family::kIpv4).RateAbovePerSecond(200).Build();
  EXPECT_EQ(rule.text, "limit rate over 200/second burst 200 packets");
  EXPECT_EQ(At<RateAbove>(rule, 0).packets_per_second, 200u);
  EXPECT_EQ(At<RateAbove>(rule, 0).burst, 200u);
}

TEST(RuleBuilderTest, TheDestinationIsComparedUnderAMask) {
  const auto address = [](std::string_view text) { return *IpAddress::Parse(text); };
  const RuleSpec is =
      Rule(Family::kIpv4).DestinationIs(address("192.192.0.0"), address("192.64.0.0")).Build();
  EXPECT_EQ(is.text, "ip daddr & 192.192.0.0 == 192.64.0.0");
  EXPECT_EQ(At<Bitwise>(is, 1).mask, (Bytes{192, 192, 0, 0}));
  EXPECT_EQ(At<Compare>(is, 2).value, (Bytes{192, 64, 0, 0}));
}

TEST(RuleBuilderTest, AnInvertedLookupGoesOnAfterAMiss) {
  EXPECT_TRUE(All<Lookup>(Rule(Family::kIpv4).NotIn(kService, kSet).Build()).at(0).invert);
  EXPECT_FALSE(All<Lookup>(Rule(Family::kIpv4).In(kService, kSet).Build()).at(0).invert);
}

TEST(RuleBuilderTest, TheOriginalDestinationIsOfItsFamily) {
  for (const Family family : kFamilies) {
    const RuleSpec rule =
        Rule(family).In({KeyPart::kOriginalDestination, KeyPart::kProtocol}, kSet).Build();
    EXPECT_EQ(At<OriginalDestinationLoad>(rule, 0).family, family);
    EXPECT_EQ(At<MetaLoad>(rule, 1).reg, family == Family::kIpv4 ? 1u : 4u);
  }
}

TEST(RuleBuilderTest, TheRuleBelongsToItsChain) {
  EXPECT_EQ(RuleBuilder(Family::kIpv4, "dispatch").Drop().Build().chain, "dispatch");
}

TEST(RuleBuilderTest, APrefixIsMaskedAndCompared) {
  const RuleSpec rule = Rule(Family::kIpv4).DestinationIn(Prefix("10.244.0.0/14")).Build();
  EXPECT_EQ(rule.text, "ip daddr 10.244.0.0/14");
  ASSERT_EQ(rule.exprs.size(), 3u);
  EXPECT_EQ(At<PayloadLoad>(rule, 0).offset, 16u);
  EXPECT_EQ(At<Bitwise>(rule, 1).mask, (Bytes{255, 252, 0, 0}));
  EXPECT_EQ(At<Compare>(rule, 2).value, (Bytes{10, 244, 0, 0}));
  EXPECT_TRUE(At<Compare>(rule, 2).equal);
}

TEST(RuleBuilderTest, APrefixCanBeExcluded) {
  const RuleSpec rule = Rule(Family::kIpv4).DestinationNotIn(Prefix("192.0.0.0/2")).Build();
  EXPECT_EQ(rule.text, "ip daddr != 192.0.0.0/2");
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
  // The destination port is at offset 2 of the transport header.
  EXPECT_EQ(At<PayloadLoad>(v4, 2).offset, 2u);
  const RuleSpec v6 = Rule(Family::kIpv6).In(kService, kSet).Build();
  EXPECT_EQ(At<PayloadLoad>(v6, 0).reg, 0u);
  EXPECT_EQ(At<MetaLoad>(v6, 1).reg, 4u);
  EXPECT_EQ(At<PayloadLoad>(v6, 2).reg, 5u);
}

TEST(RuleBuilderTest, ALookupInASetReturnsNothing) {
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

TEST(RuleBuilderTest, EachByteGoesToItsChain) {
  const RuleSpec rule =
      Rule(Family::kIpv6).GotoByDestinationByte(0, {{1, "pick-1"}, {200, "pick-2"}}).Build();
  ASSERT_EQ(rule.sets.size(), 1u);
  EXPECT_EQ(rule.sets[0].key, Field::kRaw8);
  EXPECT_EQ(rule.sets[0].entries.at(1).key, (Bytes{200}));
  EXPECT_EQ(rule.sets[0].entries.at(1).goto_chain, "pick-2");
  EXPECT_EQ(At<PayloadLoad>(rule, 0).offset, 24u);
  EXPECT_EQ(At<PayloadLoad>(rule, 0).size, 1u);
  EXPECT_EQ(At<Lookup>(rule, 1).into, Lookup::Into::kVerdict);
}

TEST(RuleBuilderTest, VerdictsNameTheirChains) {
  const RuleSpec rule = Rule(Family::kIpv4).Jump("a").Goto("b").Drop().Return().Build();
  EXPECT_EQ(At<Verdict>(rule, 0).kind, Verdict::Kind::kJump);
  EXPECT_EQ(At<Verdict>(rule, 0).chain, "a");
  EXPECT_EQ(At<Verdict>(rule, 1).kind, Verdict::Kind::kGoto);
  EXPECT_EQ(At<Verdict>(rule, 1).chain, "b");
  EXPECT_EQ(At<Verdict>(rule, 2).kind, Verdict::Kind::kDrop);
  EXPECT_EQ(At<Verdict>(rule, 3).kind, Verdict::Kind::kReturn);
}

TEST(RuleBuilderTest, RejectIsOfItsFamily) {
  for (const Family family : kFamilies) {
    EXPECT_EQ(At<Reject>(Rule(family).RejectPortUnreachable().Build(), 0).family, family);
  }
}

TEST(RuleBuilderTest, ATcpResetFollowsAMatchOfTcpFlags) {
  const auto expect = [](const RuleSpec& rule, Family family, uint8_t mask, uint8_t value) {
    EXPECT_EQ(At<MetaLoad>(rule, 0).key, MetaKey::kL4Proto);
    EXPECT_EQ(At<Compare>(rule, 1).value, Bytes{6});
    EXPECT_EQ(At<PayloadLoad>(rule, 2).header, Header::kTransport);
    EXPECT_EQ(At<PayloadLoad>(rule, 2).offset, 13u);
    EXPECT_EQ(At<PayloadLoad>(rule, 2).size, 1u);
    EXPECT_EQ(At<Bitwise>(rule, 3).mask, Bytes{mask});
    EXPECT_TRUE(At<Compare>(rule, 4).equal);
    EXPECT_EQ(At<Compare>(rule, 4).value, Bytes{value});
    EXPECT_EQ(At<Reject>(rule, 5).family, family);
    EXPECT_TRUE(At<Reject>(rule, 5).tcp_reset);
  };
  for (const Family family : kFamilies) {
    expect(Rule(family).TcpWithoutSynOrRst().RejectWithTcpReset().Build(), family, 0x06, 0);
    expect(Rule(family).TcpSynWithoutAck().RejectWithTcpReset().Build(), family, 0x12, 0x02);
    EXPECT_FALSE(At<Reject>(Rule(family).RejectPortUnreachable().Build(), 0).tcp_reset);
  }
}

TEST(RuleBuilderTest, InvalidIsBitZeroOfTheConntrackState) {
  const RuleSpec rule = Rule(Family::kIpv4).ConntrackInvalid().Build();
  EXPECT_EQ(At<CtLoad>(rule, 0).key, CtKey::kState);
  EXPECT_EQ(At<Bitwise>(rule, 1).mask, HostOrder(1));
}

}  // namespace
}  // namespace svcmap::nft
