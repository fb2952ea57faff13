#include "nft/netlink/bridge_reader.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <cstring>
#include <optional>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/dump.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {
namespace {

bool Flag(const nlattr* attribute) {
  return mnl_attr_get_payload_len(attribute) == sizeof(uint8_t) && mnl_attr_get_u8(attribute) != 0;
}

}  // namespace

std::optional<Bridge> ReadBridge(const nlmsghdr* message) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(ifinfomsg)) return std::nullopt;
  Bridge bridge;
  bool is_bridge = false;
  for (const nlattr* attribute : Attributes(message, sizeof(ifinfomsg))) {
    if (mnl_attr_get_type(attribute) == IFLA_IFNAME) bridge.name = AttributeText(attribute);
    if (mnl_attr_get_type(attribute) != IFLA_LINKINFO) continue;
    for (const nlattr* info : Attributes(attribute)) {
      if (mnl_attr_get_type(info) == IFLA_INFO_KIND) is_bridge = AttributeText(info) == "bridge";
      if (!is_bridge || mnl_attr_get_type(info) != IFLA_INFO_DATA) continue;
      for (const nlattr* data : Attributes(info)) {
        const unsigned type = mnl_attr_get_type(data);
        if (type == IFLA_BR_NF_CALL_IPTABLES) bridge.calls_iptables = Flag(data);
        if (type == IFLA_BR_NF_CALL_IP6TABLES) bridge.calls_ip6tables = Flag(data);
      }
    }
  }
  if (!is_bridge) return std::nullopt;
  return bridge;
}

absl::StatusOr<std::vector<Bridge>> ReadBridges() {
  absl::StatusOr<Socket> socket = Socket::Open(NETLINK_ROUTE);
  if (!socket.ok()) return socket.status();
  alignas(nlmsghdr) uint8_t buffer[128];
  nlmsghdr* request = mnl_nlmsg_put_header(buffer);
  request->nlmsg_type = RTM_GETLINK;
  request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request->nlmsg_seq = 1;
  mnl_nlmsg_put_extra_header(request, sizeof(ifinfomsg));

  std::vector<Bridge> bridges;
  const absl::Status status = Dump(
      *socket, request,
      [&](const nlmsghdr* message) {
        if (std::optional<Bridge> bridge = ReadBridge(message)) bridges.push_back(*bridge);
        return true;
      },
      [&] { bridges.clear(); });
  if (!status.ok()) return Annotate(status, "read the network interfaces");
  return bridges;
}

}  // namespace svcmap::nft
