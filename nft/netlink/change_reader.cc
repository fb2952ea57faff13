#include "nft/netlink/change_reader.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/element_reader.h"

namespace svcmap::nft {
namespace {

constexpr size_t kMaxNames = 3;

// The attribute that contains the table name has the same number in all change messages. The
// kernel's ABI guarantees this number.
constexpr uint16_t kTableAttribute = 1;

// A kind of change. The description lists changes in the order of kKinds.
struct Kind {
  unsigned type;
  uint16_t name_attribute;  // Name attribute of the object or of its container.
  const char* noun;
  const char* verb;
  // Preposition before the container's name. Empty if the name attribute names the object.
  const char* in = "";
  const char* holder = "";
};
constexpr Kind kKinds[] = {
    {NFT_MSG_DELTABLE, NFTA_TABLE_NAME, "table", "deleted"},
    {NFT_MSG_NEWTABLE, NFTA_TABLE_NAME, "table", "added or changed"},
    {NFT_MSG_DELSETELEM, NFTA_SET_ELEM_LIST_SET, "element", "deleted", "from", "sets"},
    {NFT_MSG_NEWSETELEM, NFTA_SET_ELEM_LIST_SET, "element", "added", "to", "sets"},
    {NFT_MSG_DELSET, NFTA_SET_NAME, "set", "deleted"},
    {NFT_MSG_NEWSET, NFTA_SET_NAME, "set", "added or changed"},
    {NFT_MSG_DELCHAIN, NFTA_CHAIN_NAME, "chain", "deleted"},
    {NFT_MSG_NEWCHAIN, NFTA_CHAIN_NAME, "chain", "added or changed"},
    {NFT_MSG_DELRULE, NFTA_RULE_CHAIN, "rule", "deleted", "from", "chains"},
    {NFT_MSG_NEWRULE, NFTA_RULE_CHAIN, "rule", "added", "to", "chains"},
    {NFT_MSG_DELOBJ, NFTA_OBJ_NAME, "object", "deleted"},
    {NFT_MSG_NEWOBJ, NFTA_OBJ_NAME, "object", "added or changed"},
    {NFT_MSG_DELFLOWTABLE, NFTA_FLOWTABLE_NAME, "flowtable", "deleted"},
    {NFT_MSG_NEWFLOWTABLE, NFTA_FLOWTABLE_NAME, "flowtable", "added or changed"},
};

std::string Name(const nlmsghdr* message, uint16_t type) {
  return AttributeText(AttributeTable(message, sizeof(nfgenmsg))[type]);
}

// Returns "nft (pid 123)" from the message that ends each transaction, or an empty string if the
// kernel does not include the process.
std::string Author(const nlmsghdr* generation) {
  const AttributeTable attributes(generation, sizeof(nfgenmsg));
  const std::optional<uint32_t> pid = ReadNumber(attributes[NFTA_GEN_PROC_PID]);
  return AttributeText(attributes[NFTA_GEN_PROC_NAME]) +
         (pid ? absl::StrCat(" (pid ", *pid, ")") : "");
}

// Returns true for an anonymous set, which the kernel creates and deletes together with its rule.
bool IsInsideRule(unsigned type, std::string_view name) {
  return (type == NFT_MSG_NEWSET || type == NFT_MSG_DELSET || type == NFT_MSG_NEWSETELEM ||
          type == NFT_MSG_DELSETELEM) &&
         (name.rfind("__set", 0) == 0 || name.rfind("__map", 0) == 0);
}

}  // namespace

void ChangeReader::Read(const nlmsghdr* message) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nfgenmsg)) return;
  const unsigned type = message->nlmsg_type & 0xff;
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& candidate) { return candidate.type == type; });
  if (kind == std::end(kKinds)) return;
  const uint8_t family = static_cast<const nfgenmsg*>(mnl_nlmsg_get_payload(message))->nfgen_family;
  if (family != NFPROTO_IPV4 && family != NFPROTO_IPV6) return;
  const TableSpec& table = tables_[Index(family == NFPROTO_IPV4 ? Family::kIpv4 : Family::kIpv6)];
  if (Name(message, kTableAttribute) != table.name) return;

  if (type == NFT_MSG_NEWSETELEM || type == NFT_MSG_DELSETELEM) {
    ReadElementChange(message, table, type == NFT_MSG_NEWSETELEM);
    return;
  }
  (type == NFT_MSG_DELTABLE ? change_.table : change_.structure) = true;
  std::string name = Name(message, kind->name_attribute);
  if (kind->name_attribute == NFTA_TABLE_NAME && std::string_view(kind->noun) == "table") {
    name = (table.family == Family::kIpv4 ? "ip " : "ip6 ") + name;
  }
  if (!IsInsideRule(type, name)) Notify(type, 1, name);
}

void ChangeReader::ReadElementChange(const nlmsghdr* message, const TableSpec& table, bool added) {
  const unsigned type = added ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM;
  const std::string name = Name(message, NFTA_SET_ELEM_LIST_SET);
  if (IsInsideRule(type, name)) return;
  std::vector<Element> elements;
  ReadElements(message, elements);
  // In sets with one field, a range consists of a start and an end element. Counts only the start
  // elements.
  const auto count = static_cast<size_t>(std::count_if(
      elements.begin(), elements.end(), [](const Element& e) { return !e.interval_end; }));
  const auto spec = std::find_if(table.sets.begin(), table.sets.end(),
                                 [&](const SetSpec& set) { return set.name == name; });
  if (spec == table.sets.end()) {
    change_.structure = true;
  } else if (spec->dynamic_size != 0) {
    return;
  } else {
    const SetRef set{table.family, static_cast<uint8_t>(spec - table.sets.begin())};
    if (spec->interval) {
      TouchSet(set);
    } else {
      for (const Element& element : elements) Touch(set, element.key);
    }
  }
  if (count > 0) Notify(type, count, name);
}

void ChangeReader::Touch(SetRef set, const std::vector<uint8_t>& key) {
  if (!overflowed_ && change_.elements.size() < ForeignChange::kMaxElements) {
    change_.elements.push_back({set, key});
    return;
  }
  overflowed_ = true;
  for (const ForeignChange::Touched& touched : change_.elements) TouchSet(touched.set);
  change_.elements.clear();
  TouchSet(set);
}

void ChangeReader::TouchSet(SetRef set) {
  if (std::find(change_.sets.begin(), change_.sets.end(), set) == change_.sets.end()) {
    change_.sets.push_back(set);
  }
}

void ChangeReader::Notify(unsigned type, size_t count, const std::string& name) {
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& candidate) { return candidate.type == type; });
  Count& counts = counts_[static_cast<size_t>(kind - kKinds)];
  counts.count += count;
  if (counts.names.contains(name) || counts.names.size() < kMaxNames) {
    counts.names[name] += count;
  } else {
    counts.more_names = true;
  }
}

std::string ChangeReader::Text() const {
  std::vector<std::string> clauses;
  for (const auto& [position, counts] : counts_) {
    const Kind& kind = kKinds[position];
    const std::string_view verb = kind.verb;
    const bool of_holder = kind.in[0] != '\0';
    // Omits objects that were deleted together with their table.
    if (change_.table && kind.type != NFT_MSG_DELTABLE && verb == "deleted") continue;
    const auto counted = [&](size_t count) {
      return absl::StrCat(count, " ", kind.noun, count == 1 ? " " : "s ", kind.verb);
    };
    if (counts.more_names) {
      clauses.push_back(counted(counts.count));
      if (of_holder) absl::StrAppend(&clauses.back(), " ", kind.in, " several ", kind.holder);
      continue;
    }
    for (const auto& [name, count] : counts.names) {
      clauses.push_back(of_holder ? absl::StrCat(counted(count), " ", kind.in, " ", name)
                                  : absl::StrCat(kind.noun, " ", name, " ", kind.verb));
    }
  }
  return absl::StrJoin(clauses, ", ");
}

std::optional<ForeignChange> ChangeReader::Take(const nlmsghdr* generation) {
  const bool touched =
      change_.table || change_.structure || !change_.elements.empty() || !change_.sets.empty();
  std::optional<ForeignChange> change;
  if (touched) {
    change_.text = Text();
    change_.process = Author(generation);
    change = std::move(change_);
  }
  Forget();
  return change;
}

void ChangeReader::Forget() {
  change_ = {};
  overflowed_ = false;
  counts_.clear();
}

}  // namespace svcmap::nft
