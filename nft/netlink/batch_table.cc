// The part of Batch that creates tables, sets, chains and rules. This code runs at start and for
// repairs. libnftnl's objects are fast enough for these messages. Elements use a
// faster writer.
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "nft/netlink/batch.h"
#include "nft/netlink/expr_writer.h"

namespace svcmap::nft {
namespace {

// Buffer space for one message, larger than any table, chain, rule or set definition of svcmap.
constexpr size_t kHeadroom = 32768;
constexpr uint8_t kChainComment = 0;           // NFTNL_UDATA_CHAIN_COMMENT
constexpr uint32_t kVerdictType = 0xffffff00;  // NFT_DATA_VERDICT
constexpr uint32_t kMaxAnonymousKey = 16;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using TablePtr = std::unique_ptr<nftnl_table, Free<nftnl_table_free>>;
using SetPtr = std::unique_ptr<nftnl_set, Free<nftnl_set_free>>;
using ChainPtr = std::unique_ptr<nftnl_chain, Free<nftnl_chain_free>>;
using RulePtr = std::unique_ptr<nftnl_rule, Free<nftnl_rule_free>>;

// In the id of a concatenated type, each field type occupies six bits.
uint32_t TypeId(std::span<const Field> fields) {
  uint32_t id = 0;
  for (const Field field : fields) id = id << 6 | FieldTypeId(field);
  return id;
}

uint32_t HookNumber(std::string_view hook) {
  if (hook == "prerouting") return NF_INET_PRE_ROUTING;
  if (hook == "input") return NF_INET_LOCAL_IN;
  if (hook == "forward") return NF_INET_FORWARD;
  if (hook == "output") return NF_INET_LOCAL_OUT;
  return NF_INET_POST_ROUTING;
}

}  // namespace

void Batch::AddTable(const TableSpec& table, bool drop) {
  const TablePtr object(nftnl_table_alloc());
  nftnl_table_set_str(object.get(), NFTNL_TABLE_NAME, table.name.c_str());
  nftnl_table_set_u32(object.get(), NFTNL_TABLE_FLAGS, table.dormant ? NFT_TABLE_F_DORMANT : 0);
  nlmsghdr* header =
      Begin(NFT_MSG_NEWTABLE, table.family, NLM_F_CREATE, kHeadroom, "add table " + table.name);
  nftnl_table_nlmsg_build_payload(header, object.get());
  End(header);
  if (!drop) return;
  // Creating the table first makes the deletion succeed even if the table did not exist.
  nftnl_table_unset(object.get(), NFTNL_TABLE_FLAGS);
  header = Begin(NFT_MSG_DELTABLE, table.family, 0, kHeadroom, "delete table " + table.name);
  nftnl_table_nlmsg_build_payload(header, object.get());
  End(header);
}

// A chain can be deleted only if no rule or verdict map element refers to the chain, so sets are
// deleted before chains. Rules can be deleted only from existing chains, so missing chains are
// created first.
void Batch::RepairChains(const TableSpec& table, const ChainRepair& repair) {
  const auto names = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  const auto add_chains = [&](bool removed) {
    for (const ChainSpec& chain : table.chains) {
      if (names(repair.rewrite, chain.name) && names(repair.remove_chains, chain.name) == removed) {
        AddChain(table, chain);
      }
    }
  };
  if (repair.clear_flags) AddTable(table, /*drop=*/false);
  add_chains(/*removed=*/false);
  for (const std::string& chain : repair.rewrite) DeleteRules(table, chain);
  for (const std::string& chain : repair.remove_chains) DeleteRules(table, chain);
  for (const std::string& name : repair.remove_sets) DeleteSet(table, name);
  for (const std::string& chain : repair.remove_chains) DeleteChain(table, chain);
  for (const ForeignObject& object : repair.remove_objects) DeleteObject(table, object);
  for (const SetSpec& set : table.sets) {
    if (names(repair.remove_sets, set.name) || names(repair.add_sets, set.name)) {
      AddSet(table, set);
    }
  }
  add_chains(/*removed=*/true);
  for (const RuleSpec& rule : table.rules) {
    if (names(repair.rewrite, rule.chain)) AddRule(table, rule);
  }
}

void Batch::DeleteRules(const TableSpec& table, const std::string& chain) {
  nlmsghdr* header =
      Begin(NFT_MSG_DELRULE, table.family, 0, kHeadroom, "delete the rules of " + chain);
  mnl_attr_put_strz(header, NFTA_RULE_TABLE, table.name.c_str());
  mnl_attr_put_strz(header, NFTA_RULE_CHAIN, chain.c_str());
  End(header);
}

void Batch::DeleteSet(const TableSpec& table, const std::string& name) {
  nlmsghdr* header = Begin(NFT_MSG_DELSET, table.family, 0, kHeadroom, "delete set " + name);
  mnl_attr_put_strz(header, NFTA_SET_TABLE, table.name.c_str());
  mnl_attr_put_strz(header, NFTA_SET_NAME, name.c_str());
  End(header);
}

void Batch::DeleteChain(const TableSpec& table, const std::string& name) {
  nlmsghdr* header = Begin(NFT_MSG_DELCHAIN, table.family, 0, kHeadroom, "delete chain " + name);
  mnl_attr_put_strz(header, NFTA_CHAIN_TABLE, table.name.c_str());
  mnl_attr_put_strz(header, NFTA_CHAIN_NAME, name.c_str());
  End(header);
}

void Batch::DeleteObject(const TableSpec& table, const ForeignObject& object) {
  const bool flowtable = object.type == 0;
  nlmsghdr* header = Begin(flowtable ? NFT_MSG_DELFLOWTABLE : NFT_MSG_DELOBJ, table.family, 0,
                           kHeadroom, "delete object " + object.name);
  // The attributes of flowtables and of other objects have the same numbers.
  static_assert(int{NFTA_FLOWTABLE_TABLE} == NFTA_OBJ_TABLE);
  static_assert(int{NFTA_FLOWTABLE_NAME} == NFTA_OBJ_NAME);
  mnl_attr_put_strz(header, NFTA_OBJ_TABLE, table.name.c_str());
  mnl_attr_put_strz(header, NFTA_OBJ_NAME, object.name.c_str());
  if (!flowtable) mnl_attr_put_u32(header, NFTA_OBJ_TYPE, htobe32(object.type));
  End(header);
}

void Batch::AddSet(const TableSpec& table, const SetSpec& spec) {
  const SetPtr set(nftnl_set_alloc());
  nftnl_set_set_str(set.get(), NFTNL_SET_TABLE, table.name.c_str());
  nftnl_set_set_str(set.get(), NFTNL_SET_NAME, spec.name.c_str());
  nftnl_set_set_u32(set.get(), NFTNL_SET_ID, next_set_id_++);
  nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_TYPE, TypeId(spec.key));
  nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_LEN, static_cast<uint32_t>(FieldsSize(spec.key)));
  uint32_t flags = spec.interval ? NFT_SET_INTERVAL : 0;
  if (!spec.data.empty()) {
    flags |= NFT_SET_MAP;
    nftnl_set_set_u32(set.get(), NFTNL_SET_DATA_TYPE, TypeId(spec.data));
    nftnl_set_set_u32(set.get(), NFTNL_SET_DATA_LEN, static_cast<uint32_t>(FieldsSize(spec.data)));
  }
  if (spec.has_ranges()) {
    flags |= NFT_SET_CONCAT;
    std::vector<uint8_t> lengths;
    for (const Field field : spec.key) lengths.push_back(static_cast<uint8_t>(FieldSize(field)));
    nftnl_set_set_data(set.get(), NFTNL_SET_DESC_CONCAT, lengths.data(),
                       static_cast<uint32_t>(lengths.size()));
  }
  if (spec.dynamic_size != 0) flags |= NFT_SET_EVAL | NFT_SET_TIMEOUT;
  nftnl_set_set_u32(set.get(), NFTNL_SET_FLAGS, flags);
  if (spec.dynamic_size != 0) {
    nftnl_set_set_u32(set.get(), NFTNL_SET_DESC_SIZE, spec.dynamic_size);
  }
  if (!spec.userdata.empty()) {
    nftnl_set_set_data(set.get(), NFTNL_SET_USERDATA, spec.userdata.data(),
                       static_cast<uint32_t>(spec.userdata.size()));
  }
  nlmsghdr* header =
      Begin(NFT_MSG_NEWSET, table.family, NLM_F_CREATE, kHeadroom, "add set " + spec.name);
  nftnl_set_nlmsg_build_payload(header, set.get());
  End(header);
}

void Batch::AddChain(const TableSpec& table, const ChainSpec& spec) {
  const ChainPtr chain(nftnl_chain_alloc());
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TABLE, table.name.c_str());
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_NAME, spec.name.c_str());
  if (spec.base) {
    nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TYPE, spec.base->type.c_str());
    nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_HOOKNUM, HookNumber(spec.base->hook));
    nftnl_chain_set_s32(chain.get(), NFTNL_CHAIN_PRIO, spec.base->priority);
    nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_POLICY, NF_ACCEPT);
  }
  if (!spec.comment.empty()) {
    std::vector<uint8_t> userdata = {kChainComment, static_cast<uint8_t>(spec.comment.size() + 1)};
    userdata.insert(userdata.end(), spec.comment.begin(), spec.comment.end());
    userdata.push_back(0);
    nftnl_chain_set_data(chain.get(), NFTNL_CHAIN_USERDATA, userdata.data(),
                         static_cast<uint32_t>(userdata.size()));
  }
  nlmsghdr* header =
      Begin(NFT_MSG_NEWCHAIN, table.family, NLM_F_CREATE, kHeadroom, "add chain " + spec.name);
  nftnl_chain_nlmsg_build_payload(header, chain.get());
  End(header);
}

uint32_t Batch::AddAnonymousSet(const TableSpec& table, const AnonymousSet& spec,
                                const std::string& name) {
  const bool verdicts = !spec.entries.empty() && !spec.entries.front().goto_chain.empty();
  const SetPtr set(nftnl_set_alloc());
  const uint32_t id = next_set_id_++;
  uint32_t flags = NFT_SET_ANONYMOUS | NFT_SET_CONSTANT;
  nftnl_set_set_str(set.get(), NFTNL_SET_TABLE, table.name.c_str());
  nftnl_set_set_str(set.get(), NFTNL_SET_NAME, name.c_str());
  nftnl_set_set_u32(set.get(), NFTNL_SET_ID, id);
  nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_TYPE, FieldTypeId(spec.key));
  nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_LEN, static_cast<uint32_t>(FieldSize(spec.key)));
  nftnl_set_set_u32(set.get(), NFTNL_SET_DESC_SIZE, static_cast<uint32_t>(spec.entries.size()));
  if (verdicts) {
    flags |= NFT_SET_MAP;
    nftnl_set_set_u32(set.get(), NFTNL_SET_DATA_TYPE, kVerdictType);
    nftnl_set_set_u32(set.get(), NFTNL_SET_DATA_LEN, 0);
  }
  nftnl_set_set_u32(set.get(), NFTNL_SET_FLAGS, flags);
  nlmsghdr* header = Begin(NFT_MSG_NEWSET, table.family, NLM_F_CREATE, kHeadroom, "add " + name);
  nftnl_set_nlmsg_build_payload(header, set.get());
  End(header);

  for (const AnonymousSet::Entry& entry : spec.entries) {
    nftnl_set_elem* element = nftnl_set_elem_alloc();  // The set owns the element.
    uint8_t key[kMaxAnonymousKey] = {};
    std::memcpy(key, entry.key.data(), entry.key.size());
    nftnl_set_elem_set(element, NFTNL_SET_ELEM_KEY, key, static_cast<uint32_t>(entry.key.size()));
    if (verdicts) {
      nftnl_set_elem_set_u32(element, NFTNL_SET_ELEM_VERDICT, static_cast<uint32_t>(NFT_GOTO));
      nftnl_set_elem_set_str(element, NFTNL_SET_ELEM_CHAIN, entry.goto_chain.c_str());
    }
    nftnl_set_elem_add(set.get(), element);
  }
  header =
      Begin(NFT_MSG_NEWSETELEM, table.family, NLM_F_CREATE, kHeadroom, "add elements to " + name);
  nftnl_set_elems_nlmsg_build_payload(header, set.get());
  End(header);
  return id;
}

void Batch::AddRule(const TableSpec& table, const RuleSpec& spec) {
  std::vector<std::string> names;
  std::vector<uint32_t> ids;
  for (const AnonymousSet& set : spec.sets) {
    names.push_back(set.entries.front().goto_chain.empty() ? "__set%d" : "__map%d");
    ids.push_back(AddAnonymousSet(table, set, names.back()));
  }
  const RulePtr rule(nftnl_rule_alloc());
  nftnl_rule_set_u32(rule.get(), NFTNL_RULE_FAMILY,
                     table.family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6);
  nftnl_rule_set_str(rule.get(), NFTNL_RULE_TABLE, table.name.c_str());
  nftnl_rule_set_str(rule.get(), NFTNL_RULE_CHAIN, spec.chain.c_str());
  const auto set_of = [&](const Lookup& lookup) {
    return lookup.anonymous ? SetHandle{names[lookup.set].c_str(), ids[lookup.set]}
                            : SetHandle{table.sets[lookup.set].name.c_str(), 0};
  };
  for (const Expr& expr : spec.exprs) AppendExpr(rule.get(), expr, set_of);
  nlmsghdr* header = Begin(NFT_MSG_NEWRULE, table.family, NLM_F_CREATE | NLM_F_APPEND, kHeadroom,
                           "add rule to " + spec.chain + ": " + spec.text);
  nftnl_rule_nlmsg_build_payload(header, rule.get());
  End(header);
}

}  // namespace svcmap::nft
