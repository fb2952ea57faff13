#include "nft/netlink/table_reader.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <xxhash.h>

#include <cstring>
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
  constexpr const char* kNames[] = {"prerouting", "input", "forward", "output", "postrouting"};
  return hook < std::size(kNames) ? kNames[hook] : std::to_string(hook);
}

BaseChain ReadHook(const nlattr* attribute) {
  BaseChain base;
  for (const nlattr* part : Attributes(attribute)) {
    const uint32_t number = AttributeNumber(part);
    if (mnl_attr_get_type(part) == NFTA_HOOK_HOOKNUM) base.hook = HookName(number);
    if (mnl_attr_get_type(part) == NFTA_HOOK_PRIORITY) base.priority = static_cast<int>(number);
  }
  return base;
}

bool HasName(const nlmsghdr* message, uint16_t type, const std::string& name) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nfgenmsg)) return false;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(attribute) == type) return AttributeText(attribute) == name;
  }
  return false;
}

}  // namespace

void TableReader::AddTable(const nlmsghdr* message) {
  if (!HasName(message, NFTA_TABLE_NAME, table_)) return;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(attribute) != NFTA_TABLE_FLAGS) continue;
    content_.flags = AttributeNumber(attribute);
  }
}

void TableReader::AddSet(const nlmsghdr* message) {
  if (!HasName(message, NFTA_SET_TABLE, table_)) return;
  std::string name;
  uint32_t flags = 0;
  std::optional<uint32_t> count;
  uint64_t digest = 0;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(attribute)) {
      case NFTA_SET_NAME:
        name = AttributeText(attribute);
        break;
      case NFTA_SET_FLAGS:
        flags = AttributeNumber(attribute);
        [[fallthrough]];
      case NFTA_SET_KEY_TYPE:
      case NFTA_SET_KEY_LEN:
      case NFTA_SET_DATA_TYPE:
      case NFTA_SET_DATA_LEN:
      case NFTA_SET_POLICY:
      case NFTA_SET_TIMEOUT:
      case NFTA_SET_GC_INTERVAL:
      case NFTA_SET_USERDATA:
      case NFTA_SET_OBJ_TYPE:
      case NFTA_SET_EXPR:
      case NFTA_SET_EXPRESSIONS:
        digest = Digest(attribute, digest);
        break;
      case NFTA_SET_DESC:
        for (const nlattr* part : Attributes(attribute)) {
          if (mnl_attr_get_type(part) == NFTA_SET_DESC_CONCAT) digest = Digest(part, digest);
        }
        break;
      case kSetCount:
        count = AttributeNumber(attribute);
        break;
      default:
        break;
    }
  }
  if ((flags & NFT_SET_ANONYMOUS) != 0) {
    anonymous_[name] = Digest(kSetCount, count.value_or(0), digest);
    return;
  }
  content_.sets[name] = digest;
  if (count) content_.elements[name] = *count;
}

void TableReader::AddChain(const nlmsghdr* message) {
  if (!HasName(message, NFTA_CHAIN_TABLE, table_)) return;
  std::string name;
  std::optional<BaseChain> base;
  std::string type;
  uint64_t digest = 0;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(attribute)) {
      case NFTA_CHAIN_NAME:
        name = AttributeText(attribute);
        break;
      case NFTA_CHAIN_HOOK:
        base = ReadHook(attribute);
        digest = Digest(attribute, digest);
        break;
      case NFTA_CHAIN_TYPE:
        type = AttributeText(attribute);
        digest = Digest(attribute, digest);
        break;
      case NFTA_CHAIN_POLICY:
      case NFTA_CHAIN_FLAGS:
        digest = Digest(attribute, digest);
        break;
      default:
        break;
    }
  }
  content_.chains[name] = digest;
  if (!base) return;
  base->type = std::move(type);
  content_.bases[name] = *std::move(base);
}

void TableReader::AddRule(const nlmsghdr* message) {
  if (!HasName(message, NFTA_RULE_TABLE, table_)) return;
  std::string chain;
  uint64_t digest = 0;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(attribute)) {
      case NFTA_RULE_CHAIN:
        chain = AttributeText(attribute);
        break;
      case NFTA_RULE_COMPAT:
      case NFTA_RULE_USERDATA:
        digest = Digest(attribute, digest);
        break;
      case NFTA_RULE_EXPRESSIONS:
        for (const nlattr* expression : Attributes(attribute)) {
          digest = DigestExpression(expression, digest);
        }
        break;
      default:
        break;
    }
  }
  uint64_t& of_chain = content_.chains[chain];
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
  if (!HasName(message, NFTA_OBJ_TABLE, table_)) return;
  ForeignObject object;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(attribute) == NFTA_OBJ_NAME) object.name = AttributeText(attribute);
    if (mnl_attr_get_type(attribute) == NFTA_OBJ_TYPE) object.type = AttributeNumber(attribute);
  }
  content_.objects.push_back(std::move(object));
}

void TableReader::AddFlowtable(const nlmsghdr* message) {
  if (!HasName(message, NFTA_FLOWTABLE_TABLE, table_)) return;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(attribute) != NFTA_FLOWTABLE_NAME) continue;
    content_.objects.push_back({.name = AttributeText(attribute)});
  }
}

}  // namespace svcmap::nft
