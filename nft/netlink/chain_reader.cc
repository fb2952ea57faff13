#include "nft/netlink/chain_reader.h"

#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/xt_conntrack.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/session.h"

namespace svcmap::nft {
namespace {

std::string FamilyText(uint8_t family) {
  switch (family) {
    case NFPROTO_IPV4:
      return "ip";
    case NFPROTO_IPV6:
      return "ip6";
    case NFPROTO_INET:
      return "inet";
    case NFPROTO_ARP:
      return "arp";
    case NFPROTO_BRIDGE:
      return "bridge";
    case NFPROTO_NETDEV:
      return "netdev";
    default:
      return std::to_string(family);
  }
}

// The meaning of a hook number depends on the family.
std::string HookText(uint8_t family, uint32_t hook) {
  static constexpr std::array kInet = {"prerouting", "input",       "forward",
                                       "output",     "postrouting", "ingress"};
  static constexpr std::array kArp = {"input", "output"};
  static constexpr std::array kNetdev = {"ingress", "egress"};
  switch (family) {
    case NFPROTO_ARP:
      if (hook < kArp.size()) return kArp[hook];
      break;
    case NFPROTO_NETDEV:
      if (hook < kNetdev.size()) return kNetdev[hook];
      break;
    default:
      if (hook < kInet.size()) return kInet[hook];
      break;
  }
  return std::to_string(hook);
}

// A condition of a rule, which can consist of several expressions.
class TranslatedCondition {
 public:
  // Returns false if the expression does not belong to the condition.
  bool Add(const nftnl_expr* expr) {
    const std::string_view name = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    if (name == "match") {
      complete_ = IsConntrackMatch(expr);
      return complete_;
    }
    if (name == "ct") return nftnl_expr_get_u32(expr, NFTNL_EXPR_CT_KEY) == NFT_CT_STATUS;
    if (name == "bitwise") {
      uint32_t size = 0;
      const void* mask = nftnl_expr_get(expr, NFTNL_EXPR_BITWISE_MASK, &size);
      return mask != nullptr && size == sizeof(mask_) && (std::memcpy(&mask_, mask, size), true);
    }
    if (name != "cmp") return false;
    uint32_t size = 0, value = 0;
    const void* data = nftnl_expr_get(expr, NFTNL_EXPR_CMP_DATA, &size);
    if (data == nullptr || size != sizeof(value)) return false;
    std::memcpy(&value, data, size);
    complete_ = (mask_ & IPS_DST_NAT) != 0 && value == 0 &&
                nftnl_expr_get_u32(expr, NFTNL_EXPR_CMP_OP) == NFT_CMP_NEQ;
    return complete_;
  }
  bool complete() const { return complete_; }

 private:
  static bool IsConntrackMatch(const nftnl_expr* expr) {
    if (std::string_view(nftnl_expr_get_str(expr, NFTNL_EXPR_MT_NAME)) != "conntrack" ||
        nftnl_expr_get_u32(expr, NFTNL_EXPR_MT_REV) < 2) {
      return false;
    }
    // The following revisions only append fields.
    xt_conntrack_mtinfo2 info = {};
    uint32_t size = 0;
    const void* data = nftnl_expr_get(expr, NFTNL_EXPR_MT_INFO, &size);
    if (data == nullptr || size < sizeof(info)) return false;
    std::memcpy(&info, data, sizeof(info));
    return info.match_flags == XT_CONNTRACK_STATE && info.invert_flags == 0 &&
           (info.state_mask & XT_CONNTRACK_STATE_DNAT) != 0;
  }

  uint32_t mask_ = 0;
  bool complete_ = false;
};

// Reads the rules of a chain within AsOfOneGeneration.
absl::Status ReadRules(Session& session, uint8_t family, ForeignChain& chain) {
  alignas(nlmsghdr) uint8_t buffer[512];
  nlmsghdr* request = session.Prepare(buffer, NFT_MSG_GETRULE, family, NLM_F_DUMP);
  mnl_attr_put_strz(request, NFTA_RULE_TABLE, chain.table.c_str());
  mnl_attr_put_strz(request, NFTA_RULE_CHAIN, chain.name.c_str());
  return session.Ask(request, [&](const nlmsghdr* message) {
    chain.base->accepts_translated |= AcceptsTranslated(message);
  });
}

}  // namespace

bool AcceptsTranslated(const nlmsghdr* message) {
  const std::unique_ptr<nftnl_rule, void (*)(const nftnl_rule*)> rule(nftnl_rule_alloc(),
                                                                      nftnl_rule_free);
  if (rule == nullptr || nftnl_rule_nlmsg_parse(message, rule.get()) < 0) return false;
  const std::unique_ptr<nftnl_expr_iter, void (*)(nftnl_expr_iter*)> exprs(
      nftnl_expr_iter_create(rule.get()), nftnl_expr_iter_destroy);
  TranslatedCondition condition;
  while (const nftnl_expr* expr = nftnl_expr_iter_next(exprs.get())) {
    const std::string_view name = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    if (name == "counter") continue;
    if (name == "immediate") {
      return condition.complete() && nftnl_expr_is_set(expr, NFTNL_EXPR_IMM_VERDICT) &&
             nftnl_expr_get_u32(expr, NFTNL_EXPR_IMM_VERDICT) == NF_ACCEPT;
    }
    if (!condition.Add(expr)) return false;
  }
  return false;
}

std::optional<ForeignChain> ReadChain(const nlmsghdr* message) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nfgenmsg)) return std::nullopt;
  const uint8_t family = static_cast<const nfgenmsg*>(mnl_nlmsg_get_payload(message))->nfgen_family;
  const AttributeTable attributes(message, sizeof(nfgenmsg));
  ForeignChain chain{.family = FamilyText(family),
                     .table = AttributeText(attributes[NFTA_CHAIN_TABLE]),
                     .name = AttributeText(attributes[NFTA_CHAIN_NAME])};
  if (attributes[NFTA_CHAIN_HOOK] == nullptr) return chain;
  const AttributeTable hook(attributes[NFTA_CHAIN_HOOK]);
  chain.base = {.type = AttributeText(attributes[NFTA_CHAIN_TYPE]),
                .hook = HookText(family, AttributeNumber(hook[NFTA_HOOK_HOOKNUM])),
                .priority = static_cast<int32_t>(AttributeNumber(hook[NFTA_HOOK_PRIORITY])),
                .policy_drop = AttributeNumber(attributes[NFTA_CHAIN_POLICY]) == NF_DROP};
  return chain;
}

absl::StatusOr<std::vector<ForeignChain>> ReadChains() {
  absl::StatusOr<Session> session = Session::Open({});
  if (!session.ok()) return session.status();
  std::vector<ForeignChain> chains;
  std::vector<uint8_t> families;  // Of `chains`.
  const absl::Status status = session->AsOfOneGeneration([&]() -> absl::Status {
    alignas(nlmsghdr) uint8_t buffer[128];
    const nlmsghdr* request =
        session->Prepare(buffer, NFT_MSG_GETCHAIN, NFPROTO_UNSPEC, NLM_F_DUMP);
    chains.clear();
    families.clear();
    absl::Status read = session->Ask(request, [&](const nlmsghdr* message) {
      std::optional<ForeignChain> chain = ReadChain(message);
      if (!chain) return;
      chains.push_back(*std::move(chain));
      families.push_back(
          static_cast<const nfgenmsg*>(mnl_nlmsg_get_payload(message))->nfgen_family);
    });
    for (size_t i = 0; read.ok() && i < chains.size(); ++i) {
      const std::optional<ForeignChain::Hook>& base = chains[i].base;
      if (!base || !base->policy_drop || base->hook != "forward") continue;
      read = ReadRules(*session, families[i], chains[i]);
    }
    return read;
  });
  if (!status.ok()) return Annotate(status, "read the chains of nf_tables");
  return chains;
}

}  // namespace svcmap::nft
