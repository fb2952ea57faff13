#include "nft/netlink/table_reader.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <xxhash.h>

#include <initializer_list>
#include <iterator>
#include <optional>

#include "nft/netlink/attributes.h"

namespace svcmap::nft {
namespace {

constexpr uint16_t kSetCount = 20;  // NFTA_SET_COUNT (Linux 6.16 or later).

// Hashes each value together with its type, so that equal bytes of different attributes differ.
uint64_t Digest(uint32_t type, std::span<const uint8_t> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed * 31 + type);
}
uint64_t Digest(const nlattr* attribute, uint64_t seed) {
  return Digest(mnl_attr_get_type(attribute), AttributeBytes(attribute), seed);
}
uint64_t Digest(uint32_t type, uint64_t value, uint64_t seed) {
  return Digest(type, {reinterpret_cast<const uint8_t*>(&value), sizeof(value)}, seed);
}

std::string HookName(uint32_t hook) {
  return hook < std::size(kHooks) ? kHooks[hook] : std::to_string(hook);
}

// Reads the attributes of a message if it concerns the table `table`.
std::optional<AttributeTable> ReadMessage(const nlmsghdr* message, uint16_t table_attribute,
                                          const std::string& table) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nfgenmsg)) return std::nullopt;
  const AttributeTable attributes(message, sizeof(nfgenmsg));
  if (AttributeText(attributes[table_attribute]) != table) return std::nullopt;
  return attributes;
}

// Returns a digest of the attributes of the given types that are present.
uint64_t Digest(const AttributeTable& attributes, std::initializer_list<int> types, uint64_t seed) {
  for (const int type : types) {
    if (const nlattr* attribute = attributes[static_cast<size_t>(type)]; attribute != nullptr) {
      seed = Digest(attribute, seed);
    }
  }
  return seed;
}

}  // namespace

void TableReader::AddTable(const nlmsghdr* message) {
  const auto table = ReadMessage(message, NFTA_TABLE_NAME, table_);
  if (table) content_.flags = AttributeNumber((*table)[NFTA_TABLE_FLAGS]);
}

void TableReader::AddSet(const nlmsghdr* message) {
  const auto set = ReadMessage(message, NFTA_SET_TABLE, table_);
  if (!set) return;
  uint64_t digest =
      Digest(*set,
             {NFTA_SET_FLAGS, NFTA_SET_KEY_TYPE, NFTA_SET_KEY_LEN, NFTA_SET_DATA_TYPE,
              NFTA_SET_DATA_LEN, NFTA_SET_POLICY, NFTA_SET_TIMEOUT, NFTA_SET_GC_INTERVAL,
              NFTA_SET_USERDATA, NFTA_SET_OBJ_TYPE, NFTA_SET_EXPR, NFTA_SET_EXPRESSIONS},
             0);
  digest = Digest(AttributeTable((*set)[NFTA_SET_DESC]), {NFTA_SET_DESC_CONCAT}, digest);
  const std::string name = AttributeText((*set)[NFTA_SET_NAME]);
  const nlattr* count = (*set)[kSetCount];
  if ((AttributeNumber((*set)[NFTA_SET_FLAGS]) & NFT_SET_ANONYMOUS) != 0) {
    anonymous_[name] = Digest(kSetCount, AttributeNumber(count), digest);
    return;
  }
  content_.sets[name] = digest;
  if (count != nullptr) content_.elements[name] = AttributeNumber(count);
}

void TableReader::AddChain(const nlmsghdr* message) {
  const auto chain = ReadMessage(message, NFTA_CHAIN_TABLE, table_);
  if (!chain) return;
  const std::string name = AttributeText((*chain)[NFTA_CHAIN_NAME]);
  content_.chains[name] =
      Digest(*chain, {NFTA_CHAIN_HOOK, NFTA_CHAIN_TYPE, NFTA_CHAIN_POLICY, NFTA_CHAIN_FLAGS}, 0);
  if ((*chain)[NFTA_CHAIN_HOOK] == nullptr) return;
  const AttributeTable hook((*chain)[NFTA_CHAIN_HOOK]);
  content_.bases[name] = {.type = AttributeText((*chain)[NFTA_CHAIN_TYPE]),
                          .hook = HookName(AttributeNumber(hook[NFTA_HOOK_HOOKNUM])),
                          .priority = static_cast<int>(AttributeNumber(hook[NFTA_HOOK_PRIORITY]))};
}

void TableReader::AddRule(const nlmsghdr* message) {
  const auto rule = ReadMessage(message, NFTA_RULE_TABLE, table_);
  if (!rule) return;
  uint64_t digest = Digest(*rule, {NFTA_RULE_COMPAT, NFTA_RULE_USERDATA}, 0);
  for (const nlattr* expression : Attributes((*rule)[NFTA_RULE_EXPRESSIONS])) {
    digest = DigestExpression(expression, digest);
  }
  uint64_t& of_chain = content_.chains[AttributeText((*rule)[NFTA_RULE_CHAIN])];
  of_chain = Digest(NFTA_RULE_EXPRESSIONS, digest, of_chain);
}

// The digest of a lookup in an anonymous set covers the set's definition instead of its name.
uint64_t TableReader::DigestExpression(const nlattr* expression, uint64_t seed) const {
  bool lookup = false;
  for (const nlattr* part : Attributes(expression)) {
    if (mnl_attr_get_type(part) == NFTA_EXPR_NAME) lookup = AttributeText(part) == "lookup";
    if (!lookup || mnl_attr_get_type(part) != NFTA_EXPR_DATA) {
      seed = Digest(part, seed);
      continue;
    }
    for (const nlattr* field : Attributes(part)) {
      const auto set = mnl_attr_get_type(field) == NFTA_LOOKUP_SET
                           ? anonymous_.find(AttributeText(field))
                           : anonymous_.end();
      seed = set == anonymous_.end() ? Digest(field, seed)
                                     : Digest(NFTA_LOOKUP_SET_ID, set->second, seed);
    }
  }
  return seed;
}

void TableReader::AddObject(const nlmsghdr* message) {
  const auto object = ReadMessage(message, NFTA_OBJ_TABLE, table_);
  if (!object) return;
  content_.objects.push_back({.name = AttributeText((*object)[NFTA_OBJ_NAME]),
                              .type = AttributeNumber((*object)[NFTA_OBJ_TYPE])});
}

void TableReader::AddFlowtable(const nlmsghdr* message) {
  const auto flowtable = ReadMessage(message, NFTA_FLOWTABLE_TABLE, table_);
  if (!flowtable) return;
  content_.objects.push_back({.name = AttributeText((*flowtable)[NFTA_FLOWTABLE_NAME])});
}

}  // namespace svcmap::nft
