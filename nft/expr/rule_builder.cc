#include "nft/expr/rule_builder.h"

#include <cstdio>
#include <cstring>

namespace svcmap::nft {
namespace {

constexpr uint32_t kRouteTypeLocal = 2;  // RTN_LOCAL
constexpr uint32_t kInterfaceNameSize = 16;
constexpr uint8_t kIcmp = 1, kIcmpv6 = 58;
constexpr uint8_t kIcmpEchoRequest = 8, kIcmpv6EchoRequest = 128;

std::vector<uint8_t> HostOrder(uint32_t value) {
  std::vector<uint8_t> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::vector<uint8_t> Bytes(const IpAddress& address) {
  return {address.bytes().begin(), address.bytes().end()};
}

std::string MarkText(uint32_t bits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", bits);
  return text;
}

// Values of the conntrack states `invalid` and `new` in nft. IPS_CONFIRMED is 8, IPS_DST_NAT is
// 0x20.
constexpr uint32_t kStateInvalid = 1;
constexpr uint32_t kStateNew = 8;
constexpr uint32_t kStatusConfirmed = 8;
constexpr uint32_t kStatusDnat = 0x20;

constexpr uint8_t kTcp = 6;               // IPPROTO_TCP
constexpr uint32_t kTcpFlagsOffset = 13;  // Offset of the flags in the TCP header, in bytes.
constexpr uint8_t kTcpSyn = 0x02, kTcpRst = 0x04, kTcpAck = 0x10;

}  // namespace

RuleBuilder::RuleBuilder(Family family, std::string_view chain) : family_(family) {
  rule_.chain = chain;
}

RuleBuilder& RuleBuilder::Text(std::string_view clause) {
  if (!rule_.text.empty()) rule_.text += ' ';
  rule_.text += clause;
  return *this;
}

std::string RuleBuilder::RawPayload(uint32_t byte_offset, uint32_t byte_size) {
  return "@nh," + std::to_string(byte_offset * 8) + "," + std::to_string(byte_size * 8);
}

std::string RuleBuilder::DurationText(uint32_t seconds) {
  struct Unit {
    uint32_t seconds;
    char letter;
  };
  constexpr Unit kUnits[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
  std::string text;
  for (const Unit& unit : kUnits) {
    if (seconds >= unit.seconds) text += std::to_string(seconds / unit.seconds) + unit.letter;
    seconds %= unit.seconds;
  }
  return text;
}

void RuleBuilder::MatchPrefix(std::string_view field, uint32_t offset, bool equal,
                              const IpPrefix& prefix) {
  const std::span<const uint8_t> network = prefix.address().bytes();
  std::vector<uint8_t> mask(layout().address_size);
  for (uint32_t bit = 0; bit < prefix.length(); ++bit) mask[bit / 8] |= 0x80 >> (bit % 8);
  Add(PayloadLoad{Header::kNetwork, offset, layout().address_size, 0});
  if (prefix.length() < layout().address_size * 8) {
    Add(Bitwise{0, mask, std::vector<uint8_t>(layout().address_size)});
  }
  Add(Compare{equal, 0, {network.begin(), network.end()}});
  const bool host = prefix.length() == layout().address_size * 8;
  Text(std::string(layout().name) + " " + std::string(field) + (equal ? " " : " != ") +
       (host ? prefix.address().ToString() : prefix.ToString()));
}

RuleBuilder& RuleBuilder::DestinationIn(const IpPrefix& prefix) {
  MatchPrefix("daddr", layout().destination, true, prefix);
  return *this;
}

RuleBuilder& RuleBuilder::DestinationNotIn(const IpPrefix& prefix) {
  MatchPrefix("daddr", layout().destination, false, prefix);
  return *this;
}

RuleBuilder& RuleBuilder::SourceNotIn(const IpPrefix& prefix) {
  MatchPrefix("saddr", layout().source, false, prefix);
  return *this;
}

void RuleBuilder::LoadMaskedDestination(const IpAddress& mask) {
  Add(PayloadLoad{Header::kNetwork, layout().destination, layout().address_size, 0});
  Add(Bitwise{0, Bytes(mask), std::vector<uint8_t>(layout().address_size)});
  Text(std::string(layout().name) + " daddr & " + mask.ToString());
}

RuleBuilder& RuleBuilder::DestinationIs(const IpAddress& mask, const IpAddress& value) {
  LoadMaskedDestination(mask);
  Add(Compare{true, 0, Bytes(value)});
  return Text("== " + value.ToString());
}

RuleBuilder& RuleBuilder::SourceIsLocal() {
  Add(RouteTypeLoad{.source = true, .reg = 0});
  Add(Compare{true, 0, HostOrder(kRouteTypeLocal)});
  return Text("fib saddr type local");
}

RuleBuilder& RuleBuilder::DestinationIsNotLocal() {
  Add(RouteTypeLoad{.source = false, .reg = 0});
  Add(Compare{false, 0, HostOrder(kRouteTypeLocal)});
  return Text("fib daddr type != local");
}

RuleBuilder& RuleBuilder::EchoRequest() {
  const bool v4 = family_ == Family::kIpv4;
  Add(MetaLoad{MetaKey::kL4Proto, 0});
  Add(Compare{true, 0, {v4 ? kIcmp : kIcmpv6}});
  Add(PayloadLoad{Header::kTransport, 0, 1, 0});
  Add(Compare{true, 0, {v4 ? kIcmpEchoRequest : kIcmpv6EchoRequest}});
  return Text(v4 ? "icmp type echo-request" : "icmpv6 type echo-request");
}

// For a pattern such as "veth*", compares only the bytes before the asterisk.
void RuleBuilder::MatchInput(std::string_view pattern, bool equal) {
  const bool prefix = pattern.ends_with('*');
  const std::string_view name = prefix ? pattern.substr(0, pattern.size() - 1) : pattern;
  std::vector<uint8_t> value(name.begin(), name.end());
  if (!prefix) value.resize(kInterfaceNameSize);
  Add(MetaLoad{MetaKey::kInputName, 0});
  Add(Compare{equal, 0, std::move(value)});
  Text("iifname " + std::string(equal ? "" : "!= ") + "\"" + std::string(pattern) + "\"");
}

RuleBuilder& RuleBuilder::InputIs(std::string_view pattern) {
  MatchInput(pattern, true);
  return *this;
}

RuleBuilder& RuleBuilder::InputIsNot(std::string_view pattern) {
  MatchInput(pattern, false);
  return *this;
}

void RuleBuilder::MatchState(uint32_t state) {
  Add(CtLoad{CtKey::kState, 0});
  Add(Bitwise{0, HostOrder(state), HostOrder(0)});
  Add(Compare{false, 0, HostOrder(0)});
}

RuleBuilder& RuleBuilder::ConntrackNew() {
  MatchState(kStateNew);
  return Text("ct state new");
}

RuleBuilder& RuleBuilder::ConntrackInvalid() {
  MatchState(kStateInvalid);
  return Text("ct state invalid");
}

void RuleBuilder::MatchTcpFlags(uint8_t mask, uint8_t value) {
  Add(MetaLoad{MetaKey::kL4Proto, 0});
  Add(Compare{true, 0, {kTcp}});
  Add(PayloadLoad{Header::kTransport, kTcpFlagsOffset, 1, 0});
  Add(Bitwise{0, {mask}, {0}});
  Add(Compare{true, 0, {value}});
  tcp_ = true;
}

RuleBuilder& RuleBuilder::TcpWithoutSynOrRst() {
  MatchTcpFlags(kTcpSyn | kTcpRst, 0);
  return Text("tcp flags ! syn,rst");
}

RuleBuilder& RuleBuilder::TcpSynWithoutAck() {
  MatchTcpFlags(kTcpSyn | kTcpAck, kTcpSyn);
  return Text("tcp flags syn / syn,ack");
}

RuleBuilder& RuleBuilder::ConntrackDnat() {
  CompareStatus(kStatusDnat, /*equal_to_0=*/false);
  return Text("ct status dnat");
}

RuleBuilder& RuleBuilder::ConntrackNotDnat() {
  CompareStatus(kStatusDnat, /*equal_to_0=*/true);
  return Text("ct status ! dnat");
}

RuleBuilder& RuleBuilder::ConntrackNotConfirmed() {
  CompareStatus(kStatusConfirmed, /*equal_to_0=*/true);
  return Text("ct status ! confirmed");
}

void RuleBuilder::CompareStatus(uint32_t bit, bool equal_to_0) {
  Add(CtLoad{CtKey::kStatus, 0});
  Add(Bitwise{0, HostOrder(bit), HostOrder(0)});
  Add(Compare{equal_to_0, 0, HostOrder(0)});
}

RuleBuilder& RuleBuilder::MarkHas(uint32_t bits) {
  Add(MetaLoad{MetaKey::kMark, 0});
  Add(Bitwise{0, HostOrder(bits), HostOrder(0)});
  Add(Compare{false, 0, HostOrder(0)});
  return Text("meta mark & " + MarkText(bits) + " != 0x00000000");
}

RuleBuilder& RuleBuilder::MarkOr(uint32_t bits) {
  Add(MetaLoad{MetaKey::kMark, 0});
  Add(Bitwise{0, HostOrder(~bits), HostOrder(bits)});
  Add(MetaSet{MetaKey::kMark, 0});
  return Text("meta mark set meta mark | " + MarkText(bits));
}

RuleBuilder& RuleBuilder::MarkXor(uint32_t bits) {
  Add(MetaLoad{MetaKey::kMark, 0});
  Add(Bitwise{0, HostOrder(~uint32_t{0}), HostOrder(bits)});
  Add(MetaSet{MetaKey::kMark, 0});
  return Text("meta mark set meta mark ^ " + MarkText(bits));
}

uint32_t RuleBuilder::LoadKey(const Key& key, uint32_t reg) {
  for (const KeyPart part : key) {
    switch (part) {
      case KeyPart::kSource:
        Add(PayloadLoad{Header::kNetwork, layout().source, layout().address_size, reg});
        reg += layout().address_size / 4;
        break;
      case KeyPart::kDestination:
        Add(PayloadLoad{Header::kNetwork, layout().destination, layout().address_size, reg});
        reg += layout().address_size / 4;
        break;
      case KeyPart::kOriginalDestination:
        Add(OriginalDestinationLoad{family_, reg});
        reg += layout().address_size / 4;
        break;
      case KeyPart::kProtocol:
        Add(MetaLoad{MetaKey::kL4Proto, reg++});
        break;
      case KeyPart::kSourcePort:
        Add(PayloadLoad{Header::kTransport, 0, 2, reg++});
        break;
      case KeyPart::kDestinationPort:
        Add(PayloadLoad{Header::kTransport, 2, 2, reg++});
        break;
      case KeyPart::kDestinationPortBlock:
        Add(PayloadLoad{Header::kTransport, 2, 1, reg++});
        break;
    }
  }
  return reg;
}

std::string RuleBuilder::KeyText(const Key& key) const {
  const std::string name = layout().name;
  std::string text;
  for (const KeyPart part : key) {
    if (!text.empty()) text += " . ";
    switch (part) {
      case KeyPart::kSource:
        text += name + " saddr";
        break;
      case KeyPart::kDestination:
        text += name + " daddr";
        break;
      case KeyPart::kOriginalDestination:
        text += "ct original " + name + " daddr";
        break;
      case KeyPart::kProtocol:
        text += "meta l4proto";
        break;
      case KeyPart::kSourcePort:
        text += tcp_ ? "tcp sport" : "th sport";
        break;
      case KeyPart::kDestinationPort:
        text += tcp_ ? "tcp dport" : "th dport";
        break;
      case KeyPart::kDestinationPortBlock:
        text += "@th,16,8";
        break;
    }
  }
  return text;
}

RuleBuilder& RuleBuilder::In(const Key& key, NamedSet set) {
  LoadKey(key);
  Add(Lookup{.set = set.index});
  return Text(KeyText(key) + " @" + std::string(set.name));
}

RuleBuilder& RuleBuilder::NotIn(const Key& key, NamedSet set) {
  LoadKey(key);
  Add(Lookup{.set = set.index, .invert = true});
  return Text(KeyText(key) + " != @" + std::string(set.name));
}

RuleBuilder& RuleBuilder::RewriteDestination(const Key& key, NamedSet map) {
  // Loads the map's data into registers after the key. The kernel accepts overlapping key and data
  // registers, but `nft list` prints such rules incorrectly.
  const uint32_t data_reg = LoadKey(key);
  Add(Lookup{.set = map.index, .into = Lookup::Into::kRegister, .data_reg = data_reg});
  Add(AddressWrite{family_, layout().destination, layout().address_size, data_reg});
  return Text(std::string(layout().name) + " daddr set " + KeyText(key) + " map @" +
              std::string(map.name));
}

RuleBuilder& RuleBuilder::RestoreDestination() {
  const std::string destination = std::string(layout().name) + " daddr";
  Add(OriginalDestinationLoad{family_, 0});
  Add(AddressWrite{family_, layout().destination, layout().address_size, 0});
  return Text(destination + " set ct original " + destination);
}

RuleBuilder& RuleBuilder::Count(const Key& key, NamedSet set, uint32_t seconds) {
  LoadKey(key);
  Add(DynamicElement{
      .op = DynamicElement::Op::kCount, .set = set.index, .timeout_seconds = seconds});
  return Text("update @" + std::string(set.name) + " { " + KeyText(key) + " timeout " +
              DurationText(seconds) + " counter }");
}

RuleBuilder& RuleBuilder::GotoByDestinationByte(
    uint32_t byte, const std::vector<std::pair<uint8_t, std::string>>& chains) {
  const uint32_t offset = layout().destination + byte;
  AnonymousSet set{.key = Field::kRaw8, .entries = {}};
  std::string text = RawPayload(offset, 1) + " vmap { ";
  for (const auto& [value, chain] : chains) {
    if (!set.entries.empty()) text += ", ";
    text += std::to_string(value) + " : goto " + chain;
    set.entries.push_back({{value}, chain});
  }
  Add(PayloadLoad{Header::kNetwork, offset, 1, 0});
  LookUp(std::move(set), Lookup::Into::kVerdict);
  return Text(text + " }");
}

void RuleBuilder::LookUp(AnonymousSet set, Lookup::Into into) {
  Add(Lookup{.anonymous = true, .set = static_cast<uint32_t>(rule_.sets.size()), .into = into});
  rule_.sets.push_back(std::move(set));
}

void RuleBuilder::MatchTransport() {
  Add(MetaLoad{MetaKey::kL4Proto, 0});
  LookUp({.key = Field::kInetProto, .entries = {{{6}, ""}, {{17}, ""}, {{132}, ""}}},
         Lookup::Into::kNothing);
  Text("meta l4proto { tcp, udp, sctp }");
}

RuleBuilder& RuleBuilder::DnatTo(const Key& key, NamedSet map) {
  return DnatToAddress(KeyText(key), LoadKey(key), map);
}

RuleBuilder& RuleBuilder::DnatToAddress(const std::string& key, uint32_t key_words, NamedSet map) {
  Add(Lookup{.set = map.index, .into = Lookup::Into::kRegister, .data_reg = key_words});
  Add(Dnat{family_, key_words, std::nullopt});
  return Text("dnat to " + key + " map @" + std::string(map.name));
}

RuleBuilder& RuleBuilder::RateAbovePerSecond(uint32_t packets) {
  Add(RateAbove{.packets_per_second = packets, .burst = packets});
  const std::string number = std::to_string(packets);
  return Text("limit rate over " + number + "/second burst " + number + " packets");
}

void RuleBuilder::AddVerdict(Verdict::Kind kind, std::string_view word, std::string_view chain) {
  Add(Verdict{kind, std::string(chain)});
  Text(chain.empty() ? std::string(word) : std::string(word) + " " + std::string(chain));
}

RuleBuilder& RuleBuilder::Jump(std::string_view chain) {
  AddVerdict(Verdict::Kind::kJump, "jump", chain);
  return *this;
}

RuleBuilder& RuleBuilder::Goto(std::string_view chain) {
  AddVerdict(Verdict::Kind::kGoto, "goto", chain);
  return *this;
}

RuleBuilder& RuleBuilder::Return() {
  AddVerdict(Verdict::Kind::kReturn, "return", "");
  return *this;
}

RuleBuilder& RuleBuilder::Drop() {
  AddVerdict(Verdict::Kind::kDrop, "drop", "");
  return *this;
}

RuleBuilder& RuleBuilder::RejectPortUnreachable() {
  Add(Reject{family_});
  return Text("reject");
}

RuleBuilder& RuleBuilder::RejectWithTcpReset() {
  Add(Reject{family_, /*tcp_reset=*/true});
  return Text("reject with tcp reset");
}

RuleBuilder& RuleBuilder::MasqueradeFullyRandom() {
  Add(Masquerade{});
  return Text("masquerade fully-random");
}

}  // namespace svcmap::nft
