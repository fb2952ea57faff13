#include "proxy/ruleset/service_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace svcmap::proxy {
namespace {

constexpr nft::NamedSet kAnySet = {4, "service-ips"};

ServiceRule ServiceRuleOf(Family family) { return ServiceRule(family, "services"); }

template <typename T>
std::vector<T> ExprsOf(const nft::RuleSpec& rule) {
  std::vector<T> found;
  for (const nft::Expr& expr : rule.exprs) {
    if (const T* match = std::get_if<T>(&expr)) found.push_back(*match);
  }
  return found;
}

TEST(ServiceRuleTest, TheTextIsWhatAPersonWouldType) {
  constexpr nft::NamedSet kRecords = {12, "affinity"}, kSlots = {13, "affinity-slots"};
  const auto expect = [&](const auto& build, const std::string& v4, const std::string& v6) {
    EXPECT_EQ(build(ServiceRuleOf(Family::kIpv4)).Build().text, v4);
    EXPECT_EQ(build(ServiceRuleOf(Family::kIpv6)).Build().text, v6);
  };
  expect([](ServiceRule r) { return r.DnatToRandomSlot(7, kAnySet); },
         "meta l4proto { tcp, udp, sctp } dnat ip to @nh,136,24 . numgen random mod 7 map "
         "@service-ips",
         "meta l4proto { tcp, udp, sctp } dnat ip6 to @nh,288,32 . numgen random mod 7 map "
         "@service-ips");
  expect([&](ServiceRule r) { return r.ChooseRandomSlot(7, kSlots); },
         "ip daddr set @nh,144,16 . numgen random mod 7 map @affinity-slots",
         "@nh,192,64 set @nh,304,16 . numgen random mod 7 map @affinity-slots");
  expect([](ServiceRule r) { return r.IsChosen().Return(); }, "ip daddr != 192.0.0.0/2 return",
         "ip6 daddr != c000::/2 return");
  expect([&](ServiceRule r) { return r.Remember(kRecords, 10800); },
         "update @affinity { ip saddr . @nh,128,16 timeout 3h : ip daddr }",
         "update @affinity { @nh,96,96 . @nh,192,16 timeout 3h : @nh,192,64 }");
  expect([&](ServiceRule r) { return r.Recall(kRecords); },
         "ip daddr set ip saddr . @nh,128,16 map @affinity",
         "@nh,192,64 set @nh,96,96 . @nh,192,16 map @affinity");
  expect([&](ServiceRule r) { return r.Forget(kRecords); },
         "delete @affinity { ip saddr . @nh,128,16 : ip daddr }",
         "delete @affinity { @nh,96,96 . @nh,192,16 : @nh,192,64 }");
  expect(
      [](ServiceRule r) {
        return r.DnatToChoice({14, "affinity-endpoints"});
      },
      "meta l4proto { tcp, udp, sctp } dnat ip to ip daddr map @affinity-endpoints",
      "meta l4proto { tcp, udp, sctp } dnat ip6 to @nh,192,32 map @affinity-endpoints");
  expect(
      [](ServiceRule r) {
        return r.DnatAddressToChoice({15, "range-affinity-endpoints"});
      },
      "dnat to ip daddr map @range-affinity-endpoints",
      "dnat to @nh,192,32 map @range-affinity-endpoints");
}

TEST(ServiceRuleTest, ARecordIsAddedOrDeletedByClientAndServicePort) {
  constexpr nft::NamedSet kRecords = {12, "affinity"};
  for (const Family family : kFamilies) {
    SCOPED_TRACE(FamilyName(family));
    const bool v4 = family == Family::kIpv4;
    const nft::RuleSpec remember = ServiceRuleOf(family).Remember(kRecords, 90).Build();
    const nft::RuleSpec forget = ServiceRuleOf(family).Forget(kRecords).Build();
    for (const nft::RuleSpec* rule : {&remember, &forget}) {
      const std::vector<nft::PayloadLoad> loads = ExprsOf<nft::PayloadLoad>(*rule);
      // The rule loads three values: the client address, the Service port and the selected
      // endpoint.
      ASSERT_EQ(loads.size(), 3u);
      EXPECT_EQ(loads[0].offset, 12u);
      EXPECT_EQ(loads[0].size, v4 ? 4u : 12u);
      EXPECT_EQ(loads[0].reg, 0u);
      EXPECT_EQ(loads[1].offset, v4 ? 16u : 24u);
      EXPECT_EQ(loads[1].size, 2u);
      EXPECT_EQ(loads[1].reg, loads[0].size / 4);
      EXPECT_EQ(loads[2].offset, loads[1].offset);
      EXPECT_EQ(loads[2].size, v4 ? 4u : 8u);
      EXPECT_GT(loads[2].reg, loads[1].reg);
      const nft::DynamicElement element = ExprsOf<nft::DynamicElement>(*rule).at(0);
      EXPECT_EQ(element.set, kRecords.index);
      EXPECT_EQ(element.key_reg, 0u);
      EXPECT_EQ(element.data_reg, loads[2].reg);
    }
    EXPECT_EQ(ExprsOf<nft::DynamicElement>(remember).at(0).op, nft::DynamicElement::Op::kUpdate);
    EXPECT_EQ(ExprsOf<nft::DynamicElement>(forget).at(0).op, nft::DynamicElement::Op::kDelete);
  }
}

// In IPv6, the value of the selected endpoint includes a complement, so that checksums stay valid.
// In IPv4, the value contains only the address, and the kernel updates the checksums.
TEST(ServiceRuleTest, AChoiceIsWrittenWithoutASumInIpv6Only) {
  for (const auto& build : {+[](ServiceRule r) { return r.ChooseRandomSlot(5, kAnySet); },
                            +[](ServiceRule r) { return r.Recall(kAnySet); }}) {
    const nft::RuleSpec v4 = build(ServiceRuleOf(Family::kIpv4)).Build(),
                        v6 = build(ServiceRuleOf(Family::kIpv6)).Build();
    const nft::AddressWrite address = ExprsOf<nft::AddressWrite>(v4).at(0);
    EXPECT_EQ(address.offset, 16u);
    EXPECT_EQ(address.size, 4u);
    EXPECT_EQ(address.reg, ExprsOf<nft::Lookup>(v4).at(0).data_reg);
    const nft::NeutralWrite neutral = ExprsOf<nft::NeutralWrite>(v6).at(0);
    EXPECT_EQ(neutral.offset, 24u);
    EXPECT_EQ(neutral.size, 8u);
    EXPECT_EQ(neutral.reg, ExprsOf<nft::Lookup>(v6).at(0).data_reg);
  }
}

TEST(ServiceRuleTest, DnatToAChoiceReadsItsFirstFourBytes) {
  for (const Family family : kFamilies) {
    const nft::RuleSpec rule = ServiceRuleOf(family).DnatToChoice(kAnySet).Build();
    const nft::PayloadLoad load = ExprsOf<nft::PayloadLoad>(rule).at(0);
    EXPECT_EQ(load.offset, family == Family::kIpv4 ? 16u : 24u);
    EXPECT_EQ(load.size, 4u);
    EXPECT_EQ(ExprsOf<nft::Lookup>(rule).at(1).data_reg, 1u);
    EXPECT_EQ(ExprsOf<nft::Dnat>(rule).at(0).address_reg, 1u);
    EXPECT_EQ(ExprsOf<nft::Dnat>(rule).at(0).port_reg, family == Family::kIpv4 ? 2u : 5u);
    const nft::RuleSpec address = ServiceRuleOf(family).DnatAddressToChoice(kAnySet).Build();
    EXPECT_EQ(ExprsOf<nft::PayloadLoad>(address).at(0).offset, load.offset);
    EXPECT_EQ(ExprsOf<nft::PayloadLoad>(address).at(0).size, 4u);
    EXPECT_EQ(ExprsOf<nft::Dnat>(address).at(0).address_reg, 1u);
    EXPECT_FALSE(ExprsOf<nft::Dnat>(address).at(0).port_reg);
  }
}

TEST(ServiceRuleTest, AHashOfTheClientIsTheSlotNumber) {
  const nft::Key client = {nft::KeyPart::kSource, nft::KeyPart::kSourcePort};
  const nft::RuleSpec v4 =
      ServiceRuleOf(Family::kIpv4).DnatToHashedSlot(client, 251, 0x7, kAnySet).Build();
  EXPECT_EQ(v4.text,
            "meta l4proto { tcp, udp, sctp } dnat ip to @nh,136,24 . "
            "jhash ip saddr . th sport mod 251 seed 0x7 map @service-ips");
  const nft::HashedNumber hash = ExprsOf<nft::HashedNumber>(v4).at(0);
  EXPECT_EQ(hash.reg, 1u) << "the second word of the key";
  EXPECT_EQ(hash.size, 8u) << "an address and a padded port";
  EXPECT_EQ(hash.modulus, 251u);
  EXPECT_EQ(hash.seed, 7u);
  EXPECT_EQ(ExprsOf<nft::PayloadLoad>(v4).at(1).reg, hash.source_reg);
  const nft::RuleSpec v6 = ServiceRuleOf(Family::kIpv6)
                               .DnatToHashedSlot({nft::KeyPart::kSource}, 4093, 0x7, kAnySet)
                               .Build();
  EXPECT_EQ(v6.text,
            "meta l4proto { tcp, udp, sctp } dnat ip6 to @nh,288,32 . "
            "jhash ip6 saddr mod 4093 seed 0x7 map @service-ips");
  EXPECT_EQ(ExprsOf<nft::HashedNumber>(v6).at(0).size, 16u);
  const nft::RuleSpec address =
      ServiceRuleOf(Family::kIpv4).DnatAddressToHashedSlot(client, 251, 0x7, kAnySet).Build();
  EXPECT_EQ(address.text,
            "dnat to @nh,136,24 . jhash ip saddr . th sport mod 251 seed 0x7 map @service-ips");
  EXPECT_EQ(ExprsOf<nft::Dnat>(address).at(0).port_reg, std::nullopt);
}

TEST(ServiceRuleTest, TheGroupIsTheEndOfTheDestination) {
  for (const Family family : kFamilies) {
    SCOPED_TRACE(FamilyName(family));
    const nft::RuleSpec rule = ServiceRuleOf(family).DnatToRandomSlot(9, kAnySet).Build();
    const nft::PayloadLoad load = ExprsOf<nft::PayloadLoad>(rule).at(0);
    const uint32_t end = family == Family::kIpv4 ? 20 : 40;
    EXPECT_EQ(load.offset + load.size, end);
    EXPECT_EQ(load.size, family == Family::kIpv4 ? 3u : 4u);
    EXPECT_EQ(load.reg, 0u);
    const nft::RandomNumber random = ExprsOf<nft::RandomNumber>(rule).at(0);
    EXPECT_EQ(random.reg, 1u);
    EXPECT_EQ(random.modulus, 9u);
  }
}

TEST(ServiceRuleTest, DnatFindsThePortBehindTheAddress) {
  for (const Family family : kFamilies) {
    SCOPED_TRACE(FamilyName(family));
    const nft::RuleSpec rule = ServiceRuleOf(family).DnatToRandomSlot(9, kAnySet).Build();
    const nft::Lookup lookup = ExprsOf<nft::Lookup>(rule).at(1);
    const nft::Dnat dnat = ExprsOf<nft::Dnat>(rule).at(0);
    EXPECT_EQ(dnat.family, family);
    EXPECT_EQ(dnat.address_reg, lookup.data_reg);
    EXPECT_EQ(dnat.port_reg, lookup.data_reg + (family == Family::kIpv4 ? 1 : 4));
    EXPECT_LE(dnat.port_reg, 15u);
  }
}

TEST(ServiceRuleTest, DnatIsForTcpUdpAndSctpOnly) {
  const nft::RuleSpec rule = ServiceRuleOf(Family::kIpv4).DnatToRandomSlot(1, kAnySet).Build();
  ASSERT_EQ(rule.sets.size(), 1u);
  std::vector<uint8_t> protocols;
  for (const nft::AnonymousSet::Entry& entry : rule.sets[0].entries) {
    EXPECT_EQ(entry.goto_chain, "");
    protocols.push_back(entry.key.at(0));
  }
  EXPECT_EQ(protocols, (std::vector<uint8_t>{6, 17, 132}));
  EXPECT_TRUE(ExprsOf<nft::Lookup>(rule).at(0).anonymous);
}

}  // namespace
}  // namespace svcmap::proxy
