#include "nft/conntrack/flow_message.h"

#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_sctp.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <cstring>

#include "nft/netlink/attributes.h"

namespace svcmap::nft {
namespace {

// Filter flag for matching flows by transport protocol. The kernel's UAPI headers do not define
// this flag.
constexpr uint32_t kFilterProtocol = 1 << 3;

uint8_t NfFamily(Family family) { return family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6; }

bool IsMessage(const nlmsghdr* message, uint16_t type) {
  return message->nlmsg_type == (NFNL_SUBSYS_CTNETLINK << 8 | type) &&
         mnl_nlmsg_get_payload_len(message) >= sizeof(nfgenmsg);
}

nlmsghdr* WriteHeader(uint8_t* buffer, uint16_t type, uint16_t flags, uint8_t family) {
  nlmsghdr* header = mnl_nlmsg_put_header(buffer);
  header->nlmsg_type = static_cast<uint16_t>(NFNL_SUBSYS_CTNETLINK << 8 | type);
  header->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  auto* extra = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg)));
  extra->nfgen_family = family;
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

std::optional<uint16_t> ReadU16(const nlattr* attribute) {
  if (mnl_attr_get_payload_len(attribute) != sizeof(uint16_t)) return std::nullopt;
  return be16toh(mnl_attr_get_u16(attribute));
}

bool ReadAddresses(const nlattr* nest, FlowTuple& tuple) {
  bool source = false, destination = false;
  for (const nlattr* attribute : Attributes(nest)) {
    const auto address = IpAddress::FromBytes(AttributeBytes(attribute));
    if (!address) continue;
    switch (mnl_attr_get_type(attribute)) {
      case CTA_IP_V4_SRC:
      case CTA_IP_V6_SRC:
        tuple.source.address = *address;
        source = true;
        break;
      case CTA_IP_V4_DST:
      case CTA_IP_V6_DST:
        tuple.destination.address = *address;
        destination = true;
        break;
    }
  }
  return source && destination &&
         tuple.source.address.family() == tuple.destination.address.family();
}

std::optional<TransportProtocol> ReadProtocol(const nlattr* attribute) {
  if (mnl_attr_get_payload_len(attribute) != sizeof(uint8_t)) return std::nullopt;
  switch (mnl_attr_get_u8(attribute)) {
    case IPPROTO_TCP:
      return TransportProtocol::kTcp;
    case IPPROTO_UDP:
      return TransportProtocol::kUdp;
    case IPPROTO_SCTP:
      return TransportProtocol::kSctp;
  }
  return std::nullopt;
}

bool ReadPorts(const nlattr* nest, FlowTuple& tuple, std::optional<TransportProtocol>& protocol) {
  bool source = false, destination = false;
  for (const nlattr* attribute : Attributes(nest)) {
    switch (mnl_attr_get_type(attribute)) {
      case CTA_PROTO_NUM:
        protocol = ReadProtocol(attribute);
        break;
      case CTA_PROTO_SRC_PORT:
        source = ReadU16(attribute).has_value();
        tuple.source.port = ReadU16(attribute).value_or(0);
        break;
      case CTA_PROTO_DST_PORT:
        destination = ReadU16(attribute).has_value();
        tuple.destination.port = ReadU16(attribute).value_or(0);
        break;
    }
  }
  return protocol && source && destination;
}

bool ReadTuple(const nlattr* nest, FlowTuple& tuple, std::optional<TransportProtocol>& protocol) {
  bool addresses = false, ports = false;
  for (const nlattr* attribute : Attributes(nest)) {
    switch (mnl_attr_get_type(attribute)) {
      case CTA_TUPLE_IP:
        addresses = ReadAddresses(attribute, tuple);
        break;
      case CTA_TUPLE_PROTO:
        ports = ReadPorts(attribute, tuple, protocol);
        break;
      case CTA_TUPLE_ZONE:
        tuple.zone = ReadU16(attribute).value_or(0);
        break;
    }
  }
  return addresses && ports;
}

// Returns the state of a TCP connection or SCTP association from the attribute CTA_PROTOINFO.
std::optional<uint8_t> ReadState(const nlattr* nest) {
  for (const nlattr* protocol : Attributes(nest)) {
    const bool tcp = mnl_attr_get_type(protocol) == CTA_PROTOINFO_TCP;
    if (!tcp && mnl_attr_get_type(protocol) != CTA_PROTOINFO_SCTP) continue;
    const int wanted = tcp ? int{CTA_PROTOINFO_TCP_STATE} : int{CTA_PROTOINFO_SCTP_STATE};
    for (const nlattr* attribute : Attributes(protocol)) {
      if (mnl_attr_get_type(attribute) == wanted &&
          mnl_attr_get_payload_len(attribute) == sizeof(uint8_t)) {
        return mnl_attr_get_u8(attribute);
      }
    }
  }
  return std::nullopt;
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
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(attribute) == CTA_STATS_GLOBAL_ENTRIES &&
        mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)) {
      return be32toh(mnl_attr_get_u32(attribute));
    }
  }
  return std::nullopt;
}

std::optional<Flow> ReadFlow(const nlmsghdr* message) {
  if (!IsMessage(message, IPCTNL_MSG_CT_NEW)) return std::nullopt;
  Flow flow;
  bool original = false, reply = false, seen_reply = false;
  std::optional<uint8_t> state;
  std::optional<TransportProtocol> protocol;
  std::optional<uint16_t> zone;  // Conntrack zone for both directions of the flow.
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(attribute)) {
      case CTA_TUPLE_ORIG:
        original = ReadTuple(attribute, flow.original, protocol);
        break;
      case CTA_TUPLE_REPLY:
        reply = ReadTuple(attribute, flow.reply, protocol);
        break;
      case CTA_PROTOINFO:
        state = ReadState(attribute);
        break;
      case CTA_STATUS:
        if (mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)) {
          seen_reply = (be32toh(mnl_attr_get_u32(attribute)) & IPS_SEEN_REPLY) != 0;
        }
        break;
      case CTA_ZONE:
        zone = ReadU16(attribute);
        break;
      case CTA_ID:
        if (mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)) {
          flow.id = mnl_attr_get_u32(attribute);
        }
        break;
    }
  }
  if (!original || !reply) return std::nullopt;
  flow.protocol = *protocol;
  if (!ReadProgress(state, seen_reply, flow)) return std::nullopt;
  if (zone) flow.original.zone = flow.reply.zone = *zone;
  return flow;
}

}  // namespace svcmap::nft
