#include "nft/expr/rule_builder.h"

#include <cstdio>
#include <cstring>

namespace svcmap::nft {
namespace {

// Offsets and sizes of the address fields in the network header, in bytes.
struct HeaderLayout {
  uint32_t source;
  uint32_t destination;
  uint32_t address_size;
  // Number of trailing bytes of the destination address that identify the endpoint group in
  // DnatToRandomSlot.
  uint32_t group_size;
  uint32_t client;  // Offset of the source address bytes that identify the client.
  uint32_t choice;  // Offset of the selected endpoint's identifier, for session affinity.
  uint32_t choice_size;
  const char* name;
};

constexpr HeaderLayout Layout(Family family) {
  return family == Family::kIpv4 ? HeaderLayout{12, 16, 4, 3, 12, 16, 4, "ip"}
                                 : HeaderLayout{8, 24, 16, 4, 12, 24, 8, "ip6"};
}

// Number of leading bytes of the endpoint identifier that DnatToChoice uses as the lookup key.
constexpr uint32_t kChoiceKeySize = 4;
// Number of leading bytes of the endpoint identifier that identify the Service port.
constexpr uint32_t kServicePortSize = 2;
constexpr uint32_t kStickyGroupSize = 2;
// The key of a slot consists of two 32-bit words: group number and slot number.
constexpr uint32_t kSlotKeyWords = 2;
constexpr uint32_t kSlotNumberRegister = 1;
// First register of the hashed key, as in nft 1.0.6.
constexpr uint32_t kHashedRegister = 6;
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

std::string RawPayload(uint32_t byte_offset, uint32_t byte_size) {
  return "@nh," + std::to_string(byte_offset * 8) + "," + std::to_string(byte_size * 8);
}

std::string MarkText(uint32_t bits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", bits);
  return text;
}

// Formats a duration in nft syntax, such as "1h30m".
std::string DurationText(uint32_t seconds) {
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

void RuleBuilder::MatchPrefix(std::string_view field, uint32_t offset, bool equal,
                              const IpPrefix& prefix) {
  const HeaderLayout layout = Layout(family_);
  const std::span<const uint8_t> network = prefix.address().bytes();
  std::vector<uint8_t> mask(layout.address_size);
  for (uint32_t bit = 0; bit < prefix.length(); ++bit) mask[bit / 8] |= 0x80 >> (bit % 8);
  Add(PayloadLoad{Header::kNetwork, offset, layout.address_size, 0});
  if (prefix.length() < layout.address_size * 8) {
    Add(Bitwise{0, mask, std::vector<uint8_t>(layout.address_size)});
  }
  Add(Compare{equal, 0, {network.begin(), network.end()}});
  const bool host = prefix.length() == layout.address_size * 8;
  Text(std::string(layout.name) + " " + std::string(field) + (equal ? " " : " != ") +
       (host ? prefix.address().ToString() : prefix.ToString()));
}

RuleBuilder& RuleBuilder::DestinationIn(const IpPrefix& prefix) {
  MatchPrefix("daddr", Layout(family_).destination, true, prefix);
  return *this;
}

RuleBuilder& RuleBuilder::SourceNotIn(const IpPrefix& prefix) {
  MatchPrefix("saddr", Layout(family_).source, false, prefix);
  return *this;
}

void RuleBuilder::LoadMaskedDestination(const IpAddress& mask) {
  const HeaderLayout layout = Layout(family_);
  Add(PayloadLoad{Header::kNetwork, layout.destination, layout.address_size, 0});
  Add(Bitwise{0, Bytes(mask), std::vector<uint8_t>(layout.address_size)});
  Text(std::string(layout.name) + " daddr & " + mask.ToString());
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
  const HeaderLayout layout = Layout(family_);
  for (const KeyPart part : key) {
    switch (part) {
      case KeyPart::kSource:
        Add(PayloadLoad{Header::kNetwork, layout.source, layout.address_size, reg});
        reg += layout.address_size / 4;
        break;
      case KeyPart::kDestination:
        Add(PayloadLoad{Header::kNetwork, layout.destination, layout.address_size, reg});
        reg += layout.address_size / 4;
        break;
      case KeyPart::kOriginalDestination:
        Add(OriginalDestinationLoad{family_, reg});
        reg += layout.address_size / 4;
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
  const std::string name = Layout(family_).name;
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
  const HeaderLayout layout = Layout(family_);
  // Loads the map's data into registers after the key. The kernel accepts overlapping key and data
  // registers, but `nft list` prints such rules incorrectly.
  const uint32_t data_reg = LoadKey(key);
  Add(Lookup{.set = map.index, .into = Lookup::Into::kRegister, .data_reg = data_reg});
  Add(AddressWrite{family_, layout.destination, layout.address_size, data_reg});
  return Text(std::string(layout.name) + " daddr set " + KeyText(key) + " map @" +
              std::string(map.name));
}

RuleBuilder& RuleBuilder::RestoreDestination() {
  const HeaderLayout layout = Layout(family_);
  const std::string destination = std::string(layout.name) + " daddr";
  Add(OriginalDestinationLoad{family_, 0});
  Add(AddressWrite{family_, layout.destination, layout.address_size, 0});
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
  const uint32_t offset = Layout(family_).destination + byte;
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

// Loads the group number: the last `group_size` bytes of the destination address. Returns its nft
// text.
std::string RuleBuilder::LoadGroup(uint32_t group_size) {
  const HeaderLayout layout = Layout(family_);
  const uint32_t offset = layout.destination + layout.address_size - group_size;
  Add(PayloadLoad{Header::kNetwork, offset, group_size, 0});
  return RawPayload(offset, group_size);
}

// Loads the key of a random slot: the group number and a random number. Returns the nft text of the
// key.
std::string RuleBuilder::LoadRandomSlot(uint32_t group_size, uint32_t modulus) {
  const std::string group = LoadGroup(group_size);
  Add(RandomNumber{kSlotNumberRegister, modulus});
  return group + " . numgen random mod " + std::to_string(modulus);
}

void RuleBuilder::MatchTransport() {
  Add(MetaLoad{MetaKey::kL4Proto, 0});
  LookUp({.key = Field::kInetProto, .entries = {{{6}, ""}, {{17}, ""}, {{132}, ""}}},
         Lookup::Into::kNothing);
  Text("meta l4proto { tcp, udp, sctp }");
}

// Looks up the key in the first `key_words` registers and translates the destination to the map's
// data.
void RuleBuilder::DnatFrom(uint32_t set, uint32_t key_words) {
  Add(Lookup{.set = set, .into = Lookup::Into::kRegister, .data_reg = key_words});
  Add(Dnat{family_, key_words, key_words + Layout(family_).address_size / 4});
}

RuleBuilder& RuleBuilder::DnatToSlot(const std::string& slot, NamedSet map) {
  DnatFrom(map.index, kSlotKeyWords);
  return Text("dnat " + std::string(Layout(family_).name) + " to " + slot + " map @" +
              std::string(map.name));
}

RuleBuilder& RuleBuilder::DnatToRandomSlot(uint32_t modulus, NamedSet map) {
  MatchTransport();
  return DnatToSlot(LoadRandomSlot(Layout(family_).group_size, modulus), map);
}

RuleBuilder& RuleBuilder::DnatAddressToRandomSlot(uint32_t modulus, NamedSet map) {
  const std::string slot = LoadRandomSlot(Layout(family_).group_size, modulus);
  return DnatToAddress(slot, kSlotKeyWords, map);
}

std::string RuleBuilder::LoadHashedSlot(const Key& hashed, uint32_t modulus, uint32_t seed) {
  const std::string group = LoadGroup(Layout(family_).group_size);
  const uint32_t words = LoadKey(hashed, kHashedRegister) - kHashedRegister;
  Add(HashedNumber{kSlotNumberRegister, kHashedRegister, words * 4, modulus, seed});
  char seed_text[12];
  std::snprintf(seed_text, sizeof(seed_text), "0x%x", seed);
  return group + " . jhash " + KeyText(hashed) + " mod " + std::to_string(modulus) + " seed " +
         seed_text;
}

RuleBuilder& RuleBuilder::DnatToHashedSlot(const Key& hashed, uint32_t modulus, uint32_t seed,
                                           NamedSet map) {
  MatchTransport();
  return DnatToSlot(LoadHashedSlot(hashed, modulus, seed), map);
}

RuleBuilder& RuleBuilder::DnatAddressToHashedSlot(const Key& hashed, uint32_t modulus,
                                                  uint32_t seed, NamedSet map) {
  const std::string slot = LoadHashedSlot(hashed, modulus, seed);
  return DnatToAddress(slot, kSlotKeyWords, map);
}

RuleBuilder& RuleBuilder::DnatTo(const Key& key, NamedSet map) {
  return DnatToAddress(KeyText(key), LoadKey(key), map);
}

// `key_words` is the number of registers that contain the key.
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

// First register after the key. nft aligns this register to 16 bytes.
constexpr uint32_t kChoiceRegister = 4;

std::string RuleBuilder::ChoiceText() const {
  const HeaderLayout layout = Layout(family_);
  return family_ == Family::kIpv4 ? "ip daddr" : RawPayload(layout.choice, layout.choice_size);
}

void RuleBuilder::LoadChoice(uint32_t reg) {
  const HeaderLayout layout = Layout(family_);
  Add(PayloadLoad{Header::kNetwork, layout.choice, layout.choice_size, reg});
}

void RuleBuilder::WriteChoice(uint32_t reg) {
  const HeaderLayout layout = Layout(family_);
  if (family_ == Family::kIpv4) {
    Add(AddressWrite{family_, layout.choice, layout.choice_size, reg});
  } else {
    Add(NeutralWrite{layout.choice, layout.choice_size, reg});
  }
}

RuleBuilder& RuleBuilder::ChooseRandomSlot(uint32_t modulus, NamedSet map) {
  const std::string slot = LoadRandomSlot(kStickyGroupSize, modulus);
  Add(Lookup{.set = map.index, .into = Lookup::Into::kRegister, .data_reg = kSlotKeyWords});
  WriteChoice(kSlotKeyWords);
  return Text(ChoiceText() + " set " + slot + " map @" + std::string(map.name));
}

RuleBuilder& RuleBuilder::IsChosen() {
  const char* descriptors = family_ == Family::kIpv4 ? "192.0.0.0/2" : "c000::/2";
  MatchPrefix("daddr", Layout(family_).destination, false, *IpPrefix::Parse(descriptors));
  return *this;
}

uint32_t RuleBuilder::LoadClientAndPort() {
  const HeaderLayout layout = Layout(family_);
  const uint32_t client_size = layout.source + layout.address_size - layout.client;
  Add(PayloadLoad{Header::kNetwork, layout.client, client_size, 0});
  Add(PayloadLoad{Header::kNetwork, layout.choice, kServicePortSize, client_size / 4});
  return client_size / 4 + 1;
}

std::string RuleBuilder::ClientAndPortText() const {
  const HeaderLayout layout = Layout(family_);
  const uint32_t client_size = layout.source + layout.address_size - layout.client;
  return (family_ == Family::kIpv4 ? "ip saddr" : RawPayload(layout.client, client_size)) + " . " +
         RawPayload(layout.choice, kServicePortSize);
}

RuleBuilder& RuleBuilder::Remember(NamedSet map, uint32_t seconds) {
  LoadClientAndPort();
  LoadChoice(kChoiceRegister);
  Add(DynamicElement{.op = DynamicElement::Op::kUpdate,
                     .set = map.index,
                     .data_reg = kChoiceRegister,
                     .timeout_seconds = seconds});
  return Text("update @" + std::string(map.name) + " { " + ClientAndPortText() + " timeout " +
              DurationText(seconds) + " : " + ChoiceText() + " }");
}

RuleBuilder& RuleBuilder::Recall(NamedSet map) {
  const uint32_t data_reg = LoadClientAndPort();
  Add(Lookup{.set = map.index, .into = Lookup::Into::kRegister, .data_reg = data_reg});
  WriteChoice(data_reg);
  return Text(ChoiceText() + " set " + ClientAndPortText() + " map @" + std::string(map.name));
}

RuleBuilder& RuleBuilder::Forget(NamedSet map) {
  LoadClientAndPort();
  LoadChoice(kChoiceRegister);
  Add(DynamicElement{
      .op = DynamicElement::Op::kDelete, .set = map.index, .data_reg = kChoiceRegister});
  return Text("delete @" + std::string(map.name) + " { " + ClientAndPortText() + " : " +
              ChoiceText() + " }");
}

// Loads the part of the choice that is the lookup key of an endpoint. Returns its nft text.
std::string RuleBuilder::LoadChoiceKey() {
  const HeaderLayout layout = Layout(family_);
  Add(PayloadLoad{Header::kNetwork, layout.choice, kChoiceKeySize, 0});
  return family_ == Family::kIpv4 ? "ip daddr" : RawPayload(layout.choice, kChoiceKeySize);
}

RuleBuilder& RuleBuilder::DnatToChoice(NamedSet map) {
  MatchTransport();
  const std::string key = LoadChoiceKey();
  DnatFrom(map.index, kChoiceKeySize / 4);
  return Text("dnat " + std::string(Layout(family_).name) + " to " + key + " map @" +
              std::string(map.name));
}

RuleBuilder& RuleBuilder::DnatAddressToChoice(NamedSet map) {
  const std::string key = LoadChoiceKey();
  return DnatToAddress(key, kChoiceKeySize / 4, map);
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
