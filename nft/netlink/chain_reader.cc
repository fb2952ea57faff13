#include "nft/netlink/chain_reader.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <array>
#include <cstring>

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

uint32_t Number(const nlattr* attribute) {
  if (mnl_attr_get_payload_len(attribute) != sizeof(uint32_t)) return 0;
  return be32toh(mnl_attr_get_u32(attribute));
}

}  // namespace

std::optional<ForeignChain> ReadChain(const nlmsghdr* message) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nfgenmsg)) return std::nullopt;
  const uint8_t family = static_cast<const nfgenmsg*>(mnl_nlmsg_get_payload(message))->nfgen_family;
  ForeignChain chain;
  chain.family = FamilyText(family);
  ForeignChain::Hook base;
  bool hooked = false;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(attribute)) {
      case NFTA_CHAIN_TABLE:
        chain.table = AttributeText(attribute);
        break;
      case NFTA_CHAIN_NAME:
        chain.name = AttributeText(attribute);
        break;
      case NFTA_CHAIN_TYPE:
        base.type = AttributeText(attribute);
        break;
      case NFTA_CHAIN_POLICY:
        base.policy_drop = Number(attribute) == NF_DROP;
        break;
      case NFTA_CHAIN_HOOK:
        hooked = true;
        for (const nlattr* part : Attributes(attribute)) {
          const unsigned type = mnl_attr_get_type(part);
          if (type == NFTA_HOOK_HOOKNUM) base.hook = HookText(family, Number(part));
          if (type == NFTA_HOOK_PRIORITY) base.priority = static_cast<int32_t>(Number(part));
        }
        break;
      default:
        break;
    }
  }
  if (hooked) chain.base = std::move(base);
  return chain;
}

absl::StatusOr<std::vector<ForeignChain>> ReadChains() {
  absl::StatusOr<Session> session = Session::Open({});
  if (!session.ok()) return session.status();
  std::vector<ForeignChain> chains;
  const absl::Status status = session->AsOfOneGeneration([&]() -> absl::Status {
    alignas(nlmsghdr) uint8_t buffer[128];
    const nlmsghdr* request =
        session->Prepare(buffer, NFT_MSG_GETCHAIN, NFPROTO_UNSPEC, NLM_F_DUMP);
    chains.clear();
    return session->Ask(request, [&](const nlmsghdr* message) {
      if (std::optional<ForeignChain> chain = ReadChain(message)) {
        chains.push_back(*std::move(chain));
      }
    });
  });
  if (!status.ok()) return Annotate(status, "read the chains of nf_tables");
  return chains;
}

}  // namespace svcmap::nft
