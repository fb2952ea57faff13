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

RuleBuilder& RuleBuilder::MatchPrefix(bool source, bool equal, const IpPrefix& prefix) {
  const std::span<const uint8_t> network = prefix.address().bytes();
  const uint32_t size = layout().address_size;
  const bool host = prefix.length() == size * 8;
  Add(PayloadLoad{Header::kNetwork, source ? layout().source : layout().destination, size, 0});
  if (!host) {
    std::vector<uint8_t> mask(size);
    for (uint32_t bit = 0; bit < prefix.length(); ++bit) mask[bit / 8] |= 0x80 >> (bit % 8);
    Add(Bitwise{0, mask, std::vector<uint8_t>(size)});
  }
  Add(Compare{equal, 0, {network.begin(), network.end()}});
  return Text(std::string(layout().name) + (source ? " saddr " : " daddr ") + (equal ? "" : "!= ") +
              (host ? prefix.address().ToString() : prefix.ToString()));
}

RuleBuilder& RuleBuilder::DestinationIs(const IpAddress& mask, const IpAddress& value) {
  Add(PayloadLoad{Header::kNetwork, layout().destination, layout().address_size, 0});
  Add(Bitwise{0, Bytes(mask), std::vector<uint8_t>(layout().address_size)});
  Add(Compare{true, 0, Bytes(value)});
  return Text(std::string(layout().name) + " daddr & " + mask.ToString() +
              " == " + value.ToString());
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
RuleBuilder& RuleBuilder::MatchInput(std::string_view pattern, bool equal) {
  const bool prefix = pattern.ends_with('*');
  const std::string_view name = prefix ? pattern.substr(0, pattern.size() - 1) : pattern;
  std::vector<uint8_t> value(name.begin(), name.end());
  if (!prefix) value.resize(kInterfaceNameSize);
  Add(MetaLoad{MetaKey::kInputName, 0});
  Add(Compare{equal, 0, std::move(value)});
  return Text("iifname " + std::string(equal ? "" : "!= ") + "\"" + std::string(pattern) + "\"");
}

RuleBuilder& RuleBuilder::MatchBits(Expr load, uint32_t bits, bool set, std::string_view text) {
  Add(std::move(load));
  Add(Bitwise{0, HostOrder(bits), HostOrder(0)});
  Add(Compare{!set, 0, HostOrder(0)});
  return Text(text);
}

RuleBuilder& RuleBuilder::ConntrackNew() {
  return MatchBits(CtLoad{CtKey::kState, 0}, kStateNew, true, "ct state new");
}

RuleBuilder& RuleBuilder::ConntrackInvalid() {
  return MatchBits(CtLoad{CtKey::kState, 0}, kStateInvalid, true, "ct state invalid");
}

RuleBuilder& RuleBuilder::ConntrackDnat() {
  return MatchBits(CtLoad{CtKey::kStatus, 0}, kStatusDnat, true, "ct status dnat");
}

RuleBuilder& RuleBuilder::ConntrackNotDnat() {
  return MatchBits(CtLoad{CtKey::kStatus, 0}, kStatusDnat, false, "ct status ! dnat");
}

RuleBuilder& RuleBuilder::ConntrackNotConfirmed() {
  return MatchBits(CtLoad{CtKey::kStatus, 0}, kStatusConfirmed, false, "ct status ! confirmed");
}

RuleBuilder& RuleBuilder::MarkHas(uint32_t bits) {
  return MatchBits(MetaLoad{MetaKey::kMark, 0}, bits, true,
                   "meta mark & " + MarkText(bits) + " != 0x00000000");
}

RuleBuilder& RuleBuilder::SetMark(uint32_t mask, uint32_t xor_with, char operation) {
  Add(MetaLoad{MetaKey::kMark, 0});
  Add(Bitwise{0, HostOrder(mask), HostOrder(xor_with)});
  Add(MetaSet{MetaKey::kMark, 0});
  return Text(std::string("meta mark set meta mark ") + operation + " " + MarkText(xor_with));
}

RuleBuilder& RuleBuilder::MatchTcpFlags(uint8_t mask, uint8_t value, std::string_view text) {
  Add(MetaLoad{MetaKey::kL4Proto, 0});
  Add(Compare{true, 0, {kTcp}});
  Add(PayloadLoad{Header::kTransport, kTcpFlagsOffset, 1, 0});
  Add(Bitwise{0, {mask}, {0}});
  Add(Compare{true, 0, {value}});
  tcp_ = true;
  return Text(text);
}

RuleBuilder& RuleBuilder::TcpWithoutSynOrRst() {
  return MatchTcpFlags(kTcpSyn | kTcpRst, 0, "tcp flags ! syn,rst");
}

RuleBuilder& RuleBuilder::TcpSynWithoutAck() {
  return MatchTcpFlags(kTcpSyn | kTcpAck, kTcpSyn, "tcp flags syn / syn,ack");
}

RuleBuilder::LoadedPart RuleBuilder::PartOf(KeyPart part, uint32_t reg) const {
  const std::string name = layout().name;
  const std::string transport = tcp_ ? "tcp" : "th";
  const uint32_t size = layout().address_size;
  switch (part) {
    case KeyPart::kSource:
      return {PayloadLoad{Header::kNetwork, layout().source, size, reg}, size / 4, name + " saddr"};
    case KeyPart::kDestination:
      return {PayloadLoad{Header::kNetwork, layout().destination, size, reg}, size / 4,
              name + " daddr"};
    case KeyPart::kOriginalDestination:
      return {OriginalDestinationLoad{family_, reg}, size / 4, "ct original " + name + " daddr"};
    case KeyPart::kProtocol:
      break;
    case KeyPart::kSourcePort:
      return {PayloadLoad{Header::kTransport, 0, 2, reg}, 1, transport + " sport"};
    case KeyPart::kDestinationPort:
      return {PayloadLoad{Header::kTransport, 2, 2, reg}, 1, transport + " dport"};
    case KeyPart::kDestinationPortBlock:
      return {PayloadLoad{Header::kTransport, 2, 1, reg}, 1, "@th,16,8"};
  }
  return {MetaLoad{MetaKey::kL4Proto, reg}, 1, "meta l4proto"};
}

LoadedKey RuleBuilder::LoadKey(const Key& key, uint32_t reg) {
  LoadedKey loaded{"", reg};
  for (const KeyPart part : key) {
    LoadedPart next = PartOf(part, loaded.end);
    Add(std::move(next.load));
    loaded.end += next.words;
    loaded.text += (loaded.text.empty() ? "" : " . ") + next.text;
  }
  return loaded;
}

RuleBuilder& RuleBuilder::In(const Key& key, NamedSet set) {
  const LoadedKey loaded = LoadKey(key);
  Add(Lookup{.set = set.index});
  return Text(loaded.text + " @" + std::string(set.name));
}

RuleBuilder& RuleBuilder::NotIn(const Key& key, NamedSet set) {
  const LoadedKey loaded = LoadKey(key);
  Add(Lookup{.set = set.index, .invert = true});
  return Text(loaded.text + " != @" + std::string(set.name));
}

void RuleBuilder::LookUpData(const LoadedKey& key, NamedSet map) {
  Add(Lookup{.set = map.index, .into = Lookup::Into::kRegister, .data_reg = key.end});
}

RuleBuilder& RuleBuilder::RewriteDestination(const Key& key, NamedSet map) {
  const LoadedKey loaded = LoadKey(key);
  LookUpData(loaded, map);
  Add(AddressWrite{family_, layout().destination, layout().address_size, loaded.end});
  return Text(std::string(layout().name) + " daddr set " + loaded.text + " map @" +
              std::string(map.name));
}

RuleBuilder& RuleBuilder::RestoreDestination() {
  const std::string destination = std::string(layout().name) + " daddr";
  Add(OriginalDestinationLoad{family_, 0});
  Add(AddressWrite{family_, layout().destination, layout().address_size, 0});
  return Text(destination + " set ct original " + destination);
}

RuleBuilder& RuleBuilder::Count(const Key& key, NamedSet set, uint32_t seconds) {
  const LoadedKey loaded = LoadKey(key);
  Add(DynamicElement{
      .op = DynamicElement::Op::kCount, .set = set.index, .timeout_seconds = seconds});
  return Text("update @" + std::string(set.name) + " { " + loaded.text + " timeout " +
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

RuleBuilder& RuleBuilder::DnatToAddress(const LoadedKey& key, NamedSet map) {
  LookUpData(key, map);
  Add(Dnat{family_, key.end, std::nullopt});
  return Text("dnat to " + key.text + " map @" + std::string(map.name));
}

RuleBuilder& RuleBuilder::RateAbovePerSecond(uint32_t packets) {
  Add(RateAbove{.packets_per_second = packets, .burst = packets});
  const std::string number = std::to_string(packets);
  return Text("limit rate over " + number + "/second burst " + number + " packets");
}

RuleBuilder& RuleBuilder::End(Verdict::Kind kind, std::string text, std::string_view chain) {
  Add(Verdict{kind, std::string(chain)});
  return Text(text.append(chain));
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
