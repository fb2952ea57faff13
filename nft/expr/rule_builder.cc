#include "nft/expr/rule_builder.h"

#include <cstdio>
#include <cstring>

namespace svcmap::nft {
namespace {

// Where the addresses lie in the network header, in bytes.
struct HeaderLayout {
  uint32_t source;
  uint32_t destination;
  uint32_t address_size;
  uint32_t group_size;  // The part of the destination address that DnatToRandomSlot reads.
  const char* name;
};

constexpr HeaderLayout Layout(Family family) {
  return family == Family::kIpv4 ? HeaderLayout{12, 16, 4, 3, "ip"}
                                 : HeaderLayout{8, 24, 16, 4, "ip6"};
}

std::vector<uint8_t> HostOrder(uint32_t value) {
  std::vector<uint8_t> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::string RawPayload(uint32_t byte_offset, uint32_t byte_size) {
  return "@nh," + std::to_string(byte_offset * 8) + "," + std::to_string(byte_size * 8);
}

std::string MarkText(uint32_t bits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", bits);
  return text;
}

// NF_CT_STATE bits as nft uses them: new is 8; IPS_DST_NAT is 0x20.
constexpr uint32_t kStateNew = 8;
constexpr uint32_t kStatusDnat = 0x20;

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

RuleBuilder& RuleBuilder::SourceNotIn(const IpPrefix& prefix) {
  MatchPrefix("saddr", Layout(family_).source, false, prefix);
  return *this;
}

RuleBuilder& RuleBuilder::DestinationIn(const IpPrefix& prefix) {
  MatchPrefix("daddr", Layout(family_).destination, true, prefix);
  return *this;
}

RuleBuilder& RuleBuilder::ConntrackNew() {
  Add(CtLoad{CtKey::kState, 0});
  Add(Bitwise{0, HostOrder(kStateNew), HostOrder(0)});
  Add(Compare{false, 0, HostOrder(0)});
  return Text("ct state new");
}

RuleBuilder& RuleBuilder::ConntrackDnat() {
  Add(CtLoad{CtKey::kStatus, 0});
  Add(Bitwise{0, HostOrder(kStatusDnat), HostOrder(0)});
  Add(Compare{false, 0, HostOrder(0)});
  return Text("ct status dnat");
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

uint32_t RuleBuilder::LoadKey(const Key& key) {
  const HeaderLayout layout = Layout(family_);
  uint32_t reg = 0;
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
      case KeyPart::kProtocol:
        Add(MetaLoad{MetaKey::kL4Proto, reg++});
        break;
      case KeyPart::kDestinationPort:
        Add(PayloadLoad{Header::kTransport, 2, 2, reg++});
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
      case KeyPart::kProtocol:
        text += "meta l4proto";
        break;
      case KeyPart::kDestinationPort:
        text += "th dport";
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

RuleBuilder& RuleBuilder::RewriteDestination(const Key& key, NamedSet map) {
  const HeaderLayout layout = Layout(family_);
  // The data goes behind the key: overlapping registers would be legal, and confuse nft's listing.
  const uint32_t data_reg = LoadKey(key);
  Add(Lookup{.set = map.index, .into = Lookup::Into::kRegister, .data_reg = data_reg});
  Add(AddressWrite{family_, layout.destination, layout.address_size, data_reg});
  return Text(std::string(layout.name) + " daddr set " + KeyText(key) + " map @" +
              std::string(map.name));
}

RuleBuilder& RuleBuilder::GotoByFirstDestinationByte(
    const std::vector<std::pair<uint8_t, std::string>>& chains) {
  const HeaderLayout layout = Layout(family_);
  AnonymousSet set{.key = Field::kRaw8, .entries = {}};
  std::string text = RawPayload(layout.destination, 1) + " vmap { ";
  for (const auto& [byte, chain] : chains) {
    if (!set.entries.empty()) text += ", ";
    text += std::to_string(byte) + " : goto " + chain;
    set.entries.push_back({{byte}, chain});
  }
  Add(PayloadLoad{Header::kNetwork, layout.destination, 1, 0});
  Add(Lookup{.anonymous = true,
             .set = static_cast<uint32_t>(rule_.sets.size()),
             .into = Lookup::Into::kVerdict});
  rule_.sets.push_back(std::move(set));
  return Text(text + " }");
}

RuleBuilder& RuleBuilder::DnatToRandomSlot(uint32_t modulus, NamedSet map) {
  const HeaderLayout layout = Layout(family_);
  Add(MetaLoad{MetaKey::kL4Proto, 0});
  Add(Lookup{.anonymous = true, .set = static_cast<uint32_t>(rule_.sets.size())});
  rule_.sets.push_back({.key = Field::kInetProto, .entries = {{{6}, ""}, {{17}, ""}, {{132}, ""}}});

  const uint32_t offset = layout.destination + layout.address_size - layout.group_size;
  const uint32_t address_reg = 2;  // Behind the two words of the key.
  Add(PayloadLoad{Header::kNetwork, offset, layout.group_size, 0});
  Add(RandomNumber{1, modulus});
  Add(Lookup{.set = map.index, .into = Lookup::Into::kRegister, .data_reg = address_reg});
  Add(Dnat{family_, address_reg, address_reg + layout.address_size / 4});
  return Text("meta l4proto { tcp, udp, sctp } dnat " + std::string(layout.name) + " to " +
              RawPayload(offset, layout.group_size) + " . numgen random mod " +
              std::to_string(modulus) + " map @" + std::string(map.name));
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

RuleBuilder& RuleBuilder::Drop() {
  AddVerdict(Verdict::Kind::kDrop, "drop", "");
  return *this;
}

RuleBuilder& RuleBuilder::RejectPortUnreachable() {
  Add(Reject{family_});
  return Text("reject");
}

RuleBuilder& RuleBuilder::MasqueradeFullyRandom() {
  Add(Masquerade{});
  return Text("masquerade fully-random");
}

}  // namespace svcmap::nft
