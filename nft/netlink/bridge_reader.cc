#include "nft/netlink/bridge_reader.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <optional>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/dump.h"
#include "nft/netlink/messages.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {
namespace {

bool Flag(const nlattr* attribute) { return ReadNumber<uint8_t>(attribute).value_or(0) != 0; }

}  // namespace

std::optional<Bridge> ReadBridge(const nlmsghdr* message) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(ifinfomsg)) return std::nullopt;
  const AttributeTable link(message, sizeof(ifinfomsg));
  const AttributeTable info(link[IFLA_LINKINFO]);
  if (AttributeText(info[IFLA_INFO_KIND]) != "bridge") return std::nullopt;
  const AttributeTable data(info[IFLA_INFO_DATA]);
  return Bridge{.name = AttributeText(link[IFLA_IFNAME]),
                .calls_iptables = Flag(data[IFLA_BR_NF_CALL_IPTABLES]),
                .calls_ip6tables = Flag(data[IFLA_BR_NF_CALL_IP6TABLES])};
}

absl::StatusOr<std::vector<Bridge>> ReadBridges() {
  absl::StatusOr<Socket> socket = Socket::Open(NETLINK_ROUTE);
  if (!socket.ok()) return socket.status();
  alignas(nlmsghdr) uint8_t buffer[128];
  nlmsghdr* request = PutRequest<ifinfomsg>(buffer, RTM_GETLINK, NLM_F_DUMP);
  request->nlmsg_seq = 1;

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
