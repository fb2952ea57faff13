#include "proxy/ruleset/service_rule.h"

#include <cstdio>
#include <utility>

#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/sets.h"

namespace svcmap::proxy {
namespace {

using nft::DynamicElement;
using nft::Header;
using nft::LoadedKey;
using nft::PayloadLoad;

// The parts of a descriptor in the network header. Offsets and sizes in bytes.
struct DescriptorFields {
  uint32_t group_size;  // Number of trailing bytes that identify the endpoint group.
  uint32_t client;      // Offset of the source address bytes that identify the client.
  uint32_t choice;      // Offset of the selected endpoint's identifier, for session affinity.
  uint32_t choice_size;
};

constexpr DescriptorFields FieldsOf(Family family) {
  return family == Family::kIpv4 ? DescriptorFields{3, 12, 16, 4} : DescriptorFields{4, 12, 24, 8};
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
// First register after the key of a record. nft aligns this register to 16 bytes.
constexpr uint32_t kChoiceRegister = 4;

// Returns whether a map contains endpoints with ports. Endpoints of port ranges have no port.
bool HavePorts(SetIndex map) {
  return map == kEndpoints || map == kAffinityEndpoints || map == kAffinityLocalEndpoints;
}

}  // namespace

// Loads the group number: the last `group_size` bytes of the destination address. Returns its nft
// text.
std::string ServiceRule::LoadGroup(uint32_t group_size) {
  const uint32_t offset = layout().destination + layout().address_size - group_size;
  Add(PayloadLoad{Header::kNetwork, offset, group_size, 0});
  return RawPayload(offset, group_size);
}

// Loads the key of a random slot: the group number and a random number.
LoadedKey ServiceRule::LoadRandomSlot(uint32_t group_size, uint32_t modulus) {
  const std::string group = LoadGroup(group_size);
  Add(nft::RandomNumber{kSlotNumberRegister, modulus});
  return {group + " . numgen random mod " + std::to_string(modulus), kSlotKeyWords};
}

// Looks up the key and translates the destination to the map's data.
nft::RuleBuilder& ServiceRule::DnatFrom(const LoadedKey& key, SetIndex map) {
  if (!HavePorts(map)) return DnatToAddress(key, Named(map));
  LookUpData(key, Named(map));
  Add(nft::Dnat{family(), key.end, key.end + layout().address_size / 4});
  return Text("dnat " + std::string(layout().name) + " to " + key.text + " map @" +
              std::string(Named(map).name));
}

nft::RuleBuilder& ServiceRule::DnatToRandomSlot(uint32_t modulus, SetIndex map) {
  if (HavePorts(map)) MatchTransport();
  return DnatFrom(LoadRandomSlot(FieldsOf(family()).group_size, modulus), map);
}

nft::RuleBuilder& ServiceRule::DnatToHashedSlot(const nft::Key& hashed, uint32_t modulus,
                                                SetIndex map) {
  if (HavePorts(map)) MatchTransport();
  const std::string group = LoadGroup(FieldsOf(family()).group_size);
  const LoadedKey key = LoadKey(hashed, kHashedRegister);
  const uint32_t words = key.end - kHashedRegister;
  Add(nft::HashedNumber{kSlotNumberRegister, kHashedRegister, words * 4, modulus, kHashSeed});
  char seed[12];
  std::snprintf(seed, sizeof(seed), "0x%x", kHashSeed);
  return DnatFrom(
      {group + " . jhash " + key.text + " mod " + std::to_string(modulus) + " seed " + seed,
       kSlotKeyWords},
      map);
}

std::string ServiceRule::ChoiceText() const {
  const DescriptorFields fields = FieldsOf(family());
  return family() == Family::kIpv4 ? "ip daddr" : RawPayload(fields.choice, fields.choice_size);
}

void ServiceRule::LoadChoice(uint32_t reg) {
  const DescriptorFields fields = FieldsOf(family());
  Add(PayloadLoad{Header::kNetwork, fields.choice, fields.choice_size, reg});
}

// `CHOICE set KEY map @map`
nft::RuleBuilder& ServiceRule::WriteChoice(const LoadedKey& key, SetIndex map) {
  const DescriptorFields fields = FieldsOf(family());
  LookUpData(key, Named(map));
  if (family() == Family::kIpv4) {
    Add(nft::AddressWrite{family(), fields.choice, fields.choice_size, key.end});
  } else {
    Add(nft::NeutralWrite{fields.choice, fields.choice_size, key.end});
  }
  return Text(ChoiceText() + " set " + key.text + " map @" + std::string(Named(map).name));
}

nft::RuleBuilder& ServiceRule::ChooseRandomSlot(uint32_t modulus) {
  return WriteChoice(LoadRandomSlot(kStickyGroupSize, modulus), kAffinitySlots);
}

nft::RuleBuilder& ServiceRule::IsChosen() {
  return DestinationNotIn(DescriptorPrefix(family(), DispatchKind::kSticky));
}

LoadedKey ServiceRule::LoadClientAndPort() {
  const DescriptorFields fields = FieldsOf(family());
  const uint32_t client_size = layout().source + layout().address_size - fields.client;
  Add(PayloadLoad{Header::kNetwork, fields.client, client_size, 0});
  Add(PayloadLoad{Header::kNetwork, fields.choice, kServicePortSize, client_size / 4});
  const std::string client =
      family() == Family::kIpv4 ? "ip saddr" : RawPayload(fields.client, client_size);
  return {client + " . " + RawPayload(fields.choice, kServicePortSize), client_size / 4 + 1};
}

nft::RuleBuilder& ServiceRule::Remember(uint32_t seconds) {
  const LoadedKey key = LoadClientAndPort();
  LoadChoice(kChoiceRegister);
  Add(DynamicElement{.op = DynamicElement::Op::kUpdate,
                     .set = kAffinity,
                     .data_reg = kChoiceRegister,
                     .timeout_seconds = seconds});
  return Text("update @affinity { " + key.text + " timeout " + DurationText(seconds) + " : " +
              ChoiceText() + " }");
}

nft::RuleBuilder& ServiceRule::Recall() { return WriteChoice(LoadClientAndPort(), kAffinity); }

nft::RuleBuilder& ServiceRule::Forget() {
  const LoadedKey key = LoadClientAndPort();
  LoadChoice(kChoiceRegister);
  Add(DynamicElement{
      .op = DynamicElement::Op::kDelete, .set = kAffinity, .data_reg = kChoiceRegister});
  return Text("delete @affinity { " + key.text + " : " + ChoiceText() + " }");
}

nft::RuleBuilder& ServiceRule::DnatToChoice(SetIndex map) {
  if (HavePorts(map)) MatchTransport();
  const uint32_t offset = FieldsOf(family()).choice;
  Add(PayloadLoad{Header::kNetwork, offset, kChoiceKeySize, 0});
  return DnatFrom({family() == Family::kIpv4 ? "ip daddr" : RawPayload(offset, kChoiceKeySize),
                   kChoiceKeySize / 4},
                  map);
}

}  // namespace svcmap::proxy
