#include "nft/conntrack/flow_message.h"

#include <endian.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_sctp.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include "nft/netlink/attributes.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

// Filter flag for matching flows by transport protocol. The kernel's UAPI headers do not define
// this flag.
constexpr uint32_t kFilterProtocol = 1 << 3;

bool IsMessage(const nlmsghdr* message, uint16_t type) {
  return message->nlmsg_type == (NFNL_SUBSYS_CTNETLINK << 8 | type) &&
         mnl_nlmsg_get_payload_len(message) >= sizeof(nfgenmsg);
}

nlmsghdr* WriteHeader(uint8_t* buffer, uint16_t type, uint16_t flags, uint8_t family) {
  nlmsghdr* header = PutRequest<nfgenmsg>(buffer, NFNL_SUBSYS_CTNETLINK << 8 | type, flags);
  static_cast<nfgenmsg*>(mnl_nlmsg_get_payload(header))->nfgen_family = family;
  return header;
}

void WriteAddress(nlmsghdr* header, uint16_t v4, uint16_t v6, const IpAddress& address) {
  mnl_attr_put(header, address.family() == Family::kIpv4 ? v4 : v6, address.size(),
               address.bytes().data());
}

void WriteTuple(nlmsghdr* header, uint16_t type, TransportProtocol protocol,
                const FlowTuple& tuple) {
  nlattr* nest = mnl_attr_nest_start(header, type);
  nlattr* ip = mnl_attr_nest_start(header, CTA_TUPLE_IP);
  WriteAddress(header, CTA_IP_V4_SRC, CTA_IP_V6_SRC, tuple.source.address);
  WriteAddress(header, CTA_IP_V4_DST, CTA_IP_V6_DST, tuple.destination.address);
  mnl_attr_nest_end(header, ip);
  nlattr* proto = mnl_attr_nest_start(header, CTA_TUPLE_PROTO);
  mnl_attr_put_u8(header, CTA_PROTO_NUM, static_cast<uint8_t>(protocol));
  mnl_attr_put_u16(header, CTA_PROTO_SRC_PORT, htobe16(tuple.source.port));
  mnl_attr_put_u16(header, CTA_PROTO_DST_PORT, htobe16(tuple.destination.port));
  mnl_attr_nest_end(header, proto);
  mnl_attr_nest_end(header, nest);
}

std::optional<TransportProtocol> ReadProtocol(const nlattr* attribute) {
  const std::optional<uint8_t> number = ReadNumber<uint8_t>(attribute);
  if (number != IPPROTO_TCP && number != IPPROTO_UDP && number != IPPROTO_SCTP) return std::nullopt;
  return static_cast<TransportProtocol>(*number);
}

bool ReadTuple(const nlattr* nest, FlowTuple& tuple, std::optional<TransportProtocol>& protocol) {
  const AttributeTable parts(nest);
  const AttributeTable ip(parts[CTA_TUPLE_IP]), proto(parts[CTA_TUPLE_PROTO]);
  const auto read = [&](int v4, int v6, int port_attribute, FlowEnd& end) {
    const auto address = IpAddress::FromBytes(AttributeBytes(ip[v4] != nullptr ? ip[v4] : ip[v6]));
    const auto port = ReadNumber<uint16_t>(proto[port_attribute]);
    if (address && port) end = {*address, *port};
    return address && port;
  };
  protocol = ReadProtocol(proto[CTA_PROTO_NUM]);
  tuple.zone = ReadNumber<uint16_t>(parts[CTA_TUPLE_ZONE]).value_or(0);
  return protocol && read(CTA_IP_V4_SRC, CTA_IP_V6_SRC, CTA_PROTO_SRC_PORT, tuple.source) &&
         read(CTA_IP_V4_DST, CTA_IP_V6_DST, CTA_PROTO_DST_PORT, tuple.destination) &&
         tuple.source.address.family() == tuple.destination.address.family();
}

// Returns the state of a TCP connection or SCTP association from the attribute CTA_PROTOINFO.
std::optional<uint8_t> ReadState(const nlattr* nest) {
  const AttributeTable info(nest);
  const bool tcp = info[CTA_PROTOINFO_TCP] != nullptr;
  const AttributeTable protocol(info[tcp ? int{CTA_PROTOINFO_TCP} : int{CTA_PROTOINFO_SCTP}]);
  return ReadNumber<uint8_t>(
      protocol[tcp ? int{CTA_PROTOINFO_TCP_STATE} : int{CTA_PROTOINFO_SCTP_STATE}]);
}

// Sets flow.unreplied. Returns false if the flow must not be listed.
bool ReadProgress(std::optional<uint8_t> state, bool seen_reply, Flow& flow) {
  switch (flow.protocol) {
    case TransportProtocol::kUdp:
      return true;
    case TransportProtocol::kTcp:
      // CLOSE follows if a rule answers the SYN with a reset (since Linux 6.3) or if the client
      // resets the connection. The next SYN uses the same entry.
      flow.unreplied =
          (state == TCP_CONNTRACK_SYN_SENT || state == TCP_CONNTRACK_CLOSE) && !seen_reply;
      return flow.unreplied || (state != TCP_CONNTRACK_TIME_WAIT && state != TCP_CONNTRACK_CLOSE);
    case TransportProtocol::kSctp:
      // CLOSED follows if the client gives up. The next INIT uses the same entry. HEARTBEAT_SENT is
      // another path of an association that exists.
      flow.unreplied =
          (state == SCTP_CONNTRACK_COOKIE_WAIT || state == SCTP_CONNTRACK_CLOSED) && !seen_reply;
      return flow.unreplied;
  }
  return false;
}

}  // namespace

nlmsghdr* WriteFlowDump(uint8_t* buffer) {
  return WriteHeader(buffer, IPCTNL_MSG_CT_GET, NLM_F_DUMP, NFPROTO_UNSPEC);
}

nlmsghdr* WriteFlowDump(uint8_t* buffer, const FlowKind& kind) {
  nlmsghdr* header = WriteHeader(buffer, IPCTNL_MSG_CT_GET, NLM_F_DUMP, NfFamily(kind.family));
  nlattr* tuple = mnl_attr_nest_start(header, CTA_TUPLE_ORIG);
  nlattr* proto = mnl_attr_nest_start(header, CTA_TUPLE_PROTO);
  mnl_attr_put_u8(header, CTA_PROTO_NUM, static_cast<uint8_t>(kind.protocol));
  mnl_attr_nest_end(header, proto);
  mnl_attr_nest_end(header, tuple);
  nlattr* flags = mnl_attr_nest_start(header, CTA_FILTER);
  mnl_attr_put_u32(header, CTA_FILTER_ORIG_FLAGS, kFilterProtocol);
  mnl_attr_put_u32(header, CTA_FILTER_REPLY_FLAGS, 0);
  mnl_attr_nest_end(header, flags);
  return header;
}

nlmsghdr* WriteFlowDeletion(uint8_t* buffer, const Flow& flow) {
  nlmsghdr* header = WriteHeader(buffer, IPCTNL_MSG_CT_DELETE, 0, NfFamily(flow.family()));
  WriteTuple(header, CTA_TUPLE_REPLY, flow.protocol, flow.reply);
  if (flow.reply.zone != 0) mnl_attr_put_u16(header, CTA_ZONE, htobe16(flow.reply.zone));
  mnl_attr_put_u32(header, CTA_ID, flow.id);
  return header;
}

nlmsghdr* WriteCountRequest(uint8_t* buffer) {
  return WriteHeader(buffer, IPCTNL_MSG_CT_GET_STATS, NLM_F_ACK, NFPROTO_UNSPEC);
}

std::optional<uint32_t> ReadFlowCount(const nlmsghdr* message) {
  if (!IsMessage(message, IPCTNL_MSG_CT_GET_STATS)) return std::nullopt;
  return ReadNumber(AttributeTable(message, sizeof(nfgenmsg))[CTA_STATS_GLOBAL_ENTRIES]);
}

std::optional<Flow> ReadFlow(const nlmsghdr* message) {
  if (!IsMessage(message, IPCTNL_MSG_CT_NEW)) return std::nullopt;
  const AttributeTable attributes(message, sizeof(nfgenmsg));
  Flow flow;
  std::optional<TransportProtocol> protocol;
  if (!ReadTuple(attributes[CTA_TUPLE_ORIG], flow.original, protocol) ||
      !ReadTuple(attributes[CTA_TUPLE_REPLY], flow.reply, protocol)) {
    return std::nullopt;
  }
  flow.protocol = *protocol;
  const bool seen_reply = (AttributeNumber(attributes[CTA_STATUS]) & IPS_SEEN_REPLY) != 0;
  if (!ReadProgress(ReadState(attributes[CTA_PROTOINFO]), seen_reply, flow)) return std::nullopt;
  // Conntrack zone for both directions of the flow.
  const std::optional<uint16_t> zone = ReadNumber<uint16_t>(attributes[CTA_ZONE]);
  if (zone) flow.original.zone = flow.reply.zone = *zone;
  flow.id = htobe32(AttributeNumber(attributes[CTA_ID]));
  return flow;
}

}  // namespace svcmap::nft
