#include "proxy/ruleset/sets.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <string>

namespace svcmap::proxy {
namespace {

using nft::Field;
using Bytes = std::vector<uint8_t>;

// The fields of keys and data.
enum class Part : uint8_t {
  kAddress,
  kProtocol,
  kPort,
  kPortBlock,    // High byte of the destination port.
  kGroup,        // Last bytes of a descriptor without session affinity.
  kSlot,         // Random number or hash.
  kStickyGroup,  // Last bytes of a descriptor with session affinity.
  kChoice,       // Identifier of an endpoint with session affinity.
  kChoiceKey,    // The bytes of a choice that are the key of an endpoint.
  kServicePort,  // The bytes of a choice that identify the Service port.
  kClient,       // Source address. In IPv6, without the first four bytes.
  kMark,
  kDigest,  // 16 bytes, in both families.
};

// Record types of a set (NFTNL_UDATA_SET_*).
constexpr uint8_t kKeyByteOrder = 0, kDataByteOrder = 1, kKeyTypeof = 3, kDataTypeof = 4,
                  kDataInterval = 6;
constexpr uint32_t kNoByteOrder = 0, kNetworkOrder = 2;

// Record types of an expression: expression number and its data.
constexpr uint8_t kExpression = 0, kExpressionData = 1;
constexpr uint32_t kPayload = 7, kMeta = 9, kConcatenation = 13, kNumgen = 23;

// A field as declared in a set. `records` contains libnftables' numbers for the packet header and
// the field of a payload expression, or for the parameters of another expression.
struct Declaration {
  Field field;
  std::string text;
  uint32_t expression = 0;
  std::vector<uint32_t> records;
};

// Returns bytes of the network header (2) or of the transport header (3).
Declaration Raw(Field field, uint32_t offset_bits, uint32_t header = 2) {
  const auto size_bits = static_cast<uint32_t>(nft::FieldSize(field) * 8);
  return {field,
          (header == 2 ? "@nh," : "@th,") + std::to_string(offset_bits) + "," +
              std::to_string(size_bits),
          kPayload,
          {0, 0, header, offset_bits, size_bits}};
}

// nft/expr/rule_builder.h documents the byte offsets.
Declaration DeclarationOf(Part part, bool v4) {
  const auto address = [v4] {
    return v4 ? Declaration{Field::kIpv4Addr, "ip daddr", kPayload, {12, 12}}
              : Declaration{Field::kIpv6Addr, "ip6 daddr", kPayload, {13, 9}};
  };
  switch (part) {
    case Part::kAddress:
      return address();
    case Part::kProtocol:
      return {Field::kInetProto, "meta l4proto", kMeta, {16}};
    case Part::kPort:
      return {Field::kInetService, "th dport", kPayload, {11, 2}};
    case Part::kPortBlock:
      return Raw(Field::kRaw8, 16, 3);
    case Part::kGroup:
      return v4 ? Raw(Field::kRaw24, 136) : Raw(Field::kRaw32, 288);
    case Part::kSlot:
      return {Field::kSlot, "numgen random mod 65536", kNumgen, {1, 65536, 0}};
    case Part::kStickyGroup:
      return Raw(Field::kRaw16, v4 ? 144 : 304);
    case Part::kChoice:
      return v4 ? address() : Raw(Field::kRaw64, 192);
    case Part::kChoiceKey:
      return v4 ? address() : Raw(Field::kRaw32, 192);
    case Part::kServicePort:
      return Raw(Field::kRaw16, v4 ? 128 : 192);
    case Part::kClient:
      return v4 ? Declaration{Field::kIpv4Addr, "ip saddr", kPayload, {12, 11}}
                : Raw(Field::kRaw96, 96);
    case Part::kMark:
      return {Field::kMark, ""};
    case Part::kDigest:
      return {Field::kIpv6Addr, ""};
  }
  return {Field::kMark, ""};
}

using Parts = std::initializer_list<Part>;

struct Layout {
  std::string_view name;
  Parts key;
  Parts data = {};
  bool interval = false;
  uint32_t dynamic_size = 0;
};

constexpr Parts kService = {Part::kAddress, Part::kProtocol, Part::kPort};
constexpr Parts kBlock = {Part::kAddress, Part::kProtocol, Part::kPortBlock};
constexpr Parts kPortSource = {Part::kAddress, Part::kProtocol, Part::kPort, Part::kAddress};
constexpr Parts kRangeSource = {Part::kAddress, Part::kProtocol, Part::kAddress};

constexpr Layout kLayouts[] = {
    {"affinity", {Part::kClient, Part::kServicePort}, {Part::kChoice}, false, kAffinityRecords},
    {"marker", {Part::kMark}, {Part::kDigest}},
    {"pod-sources", {Part::kAddress}, {}, /*interval=*/true},
    {"masquerade-sources", {Part::kAddress}, {}, /*interval=*/true},
    {"cluster-ips", {Part::kAddress}},
    {"service-cidrs", {Part::kAddress}, {}, /*interval=*/true},
    {"service-ips", kService, {Part::kAddress}},
    {"endpoints", {Part::kGroup, Part::kSlot}, {Part::kAddress, Part::kPort}},
    {"local-sets", {Part::kAddress}, {Part::kAddress}},
    {"no-endpoint-services", kService},
    {"no-endpoint-nodeports", kService},
    {"hairpin-connections", {Part::kAddress, Part::kAddress, Part::kProtocol, Part::kPort}},
    {"firewall-ips", kService},
    {"firewall-sources", kPortSource, {}, /*interval=*/true},
    {"affinity-slots", {Part::kStickyGroup, Part::kSlot}, {Part::kChoice}},
    {"affinity-endpoints", {Part::kChoiceKey}, {Part::kAddress, Part::kPort}},
    {"affinity-local-endpoints", {Part::kChoiceKey}, {Part::kAddress, Part::kPort}},
    {"self-endpoints", {Part::kAddress, Part::kProtocol}},
    {"ping-addresses", {Part::kAddress}},
    {"ping-target", {Part::kProtocol}, {Part::kAddress}},
    {"reset-services", kService},
    {"range-ports", kService, {Part::kAddress}},
    {"range-blocks", kBlock, {Part::kAddress}},
    {"range-endpoints", {Part::kGroup, Part::kSlot}, {Part::kAddress}},
    {"no-endpoint-range-ports", kService},
    {"no-endpoint-range-blocks", kBlock},
    {"range-hairpins", {Part::kAddress, Part::kAddress, Part::kProtocol}},
    {"range-firewall-ips", {Part::kAddress, Part::kProtocol}},
    {"range-firewall-sources", kRangeSource, {}, /*interval=*/true},
    {"range-affinity-endpoints", {Part::kChoiceKey}, {Part::kAddress}},
    {"range-affinity-local-endpoints", {Part::kChoiceKey}, {Part::kAddress}},
};
static_assert(std::size(kLayouts) == kRowSetCount);

// User data that nft stores for "type mark : ipv6_addr". Without this user data, nft interprets the
// key in network byte order and cannot load its own output again.
Bytes MarkerUserdata() {
  return {0, 4, 1, 0, 0, 0,   // key byte order: host
          1, 4, 2, 0, 0, 0,   // data byte order: network
          6, 4, 0, 0, 0, 0};  // data is not an interval
}

void Append(Bytes& bytes, uint8_t type, const Bytes& value) {
  bytes.push_back(type);
  bytes.push_back(static_cast<uint8_t>(value.size()));
  bytes.insert(bytes.end(), value.begin(), value.end());
}

void Append(Bytes& bytes, uint8_t type, uint32_t value) {
  Bytes host_order(sizeof(value));
  std::memcpy(host_order.data(), &value, sizeof(value));
  Append(bytes, type, host_order);
}

Bytes Expression(uint32_t number, const Bytes& data) {
  Bytes bytes;
  Append(bytes, kExpression, number);
  Append(bytes, kExpressionData, data);
  return bytes;
}

// The fields of a key or of data.
class Fields {
 public:
  Fields(Parts parts, bool v4) {
    for (const Part part : parts) declarations_.push_back(DeclarationOf(part, v4));
  }

  std::vector<Field> List() const {
    std::vector<Field> fields;
    for (const Declaration& declaration : declarations_) fields.push_back(declaration.field);
    return fields;
  }
  std::string Text() const {
    std::string text;
    for (const Declaration& declaration : declarations_) {
      text += (text.empty() ? "" : " . ") + declaration.text;
    }
    return text;
  }
  bool empty() const { return declarations_.empty(); }
  uint32_t ByteOrder() const { return declarations_.size() == 1 ? kNetworkOrder : kNoByteOrder; }
  Bytes Encode() const {
    std::vector<Bytes> expressions;
    for (const Declaration& declaration : declarations_) {
      Bytes records;
      uint8_t type = 0;
      for (const uint32_t value : declaration.records) Append(records, type++, value);
      expressions.push_back(Expression(declaration.expression, records));
    }
    if (expressions.size() == 1) return expressions[0];
    Bytes concatenation;
    uint8_t type = 0;
    for (const Bytes& expression : expressions) Append(concatenation, type++, expression);
    return Expression(kConcatenation, concatenation);
  }

 private:
  std::vector<Declaration> declarations_;
};

// Sets the "typeof" declaration of a set whose key has no named nft type, and the user data that
// nft 1.0.6 stores in the kernel to list such a set. The user data consists of nested
// type-length-value records with libnftables' expression numbers. A contract test compares the
// records with data written by nft.
void SetTypeof(const Fields& key, const Fields& data, nft::SetSpec& set) {
  set.typeof_text = "typeof " + key.Text() + (data.empty() ? "" : " : " + data.Text());
  Append(set.userdata, kKeyByteOrder, key.ByteOrder());
  if (!data.empty()) Append(set.userdata, kDataByteOrder, data.ByteOrder());
  Append(set.userdata, kKeyTypeof, key.Encode());
  if (data.empty()) return;
  Append(set.userdata, kDataTypeof, data.Encode());
  Append(set.userdata, kDataInterval, 0);
}

nft::SetSpec MakeSet(const Layout& layout, Family family) {
  const bool v4 = family == Family::kIpv4;
  const Fields key(layout.key, v4), data(layout.data, v4);
  nft::SetSpec set{.name = std::string(layout.name),
                   .key = key.List(),
                   .data = data.List(),
                   .interval = layout.interval,
                   .dynamic_size = layout.dynamic_size};
  // The fields after kMark have no named nft type.
  if (std::ranges::any_of(set.key, [](Field field) { return field > Field::kMark; })) {
    SetTypeof(key, data, set);
  }
  return set;
}

}  // namespace

std::vector<nft::SetSpec> MakeSets(Family family, const RulesetOptions& options) {
  std::vector<nft::SetSpec> sets;
  for (size_t i = 0; i < RowSetCount(options); ++i) sets.push_back(MakeSet(kLayouts[i], family));
  sets[kMarker].userdata = MarkerUserdata();
  if (!options.count_connections) return sets;
  sets.push_back(
      MakeSet({kServiceConnectionsName, kService, {}, false, kCountedDestinations}, family));
  if (!options.port_ranges) return sets;
  sets.push_back(MakeSet(
      {kRangeConnectionsName, {Part::kAddress, Part::kProtocol}, {}, false, kCountedDestinations},
      family));
  return sets;
}

nft::NamedSet Named(SetIndex set) { return {set, kLayouts[set].name}; }

}  // namespace svcmap::proxy
