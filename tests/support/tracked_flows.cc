#include "tests/support/tracked_flows.h"

#include <endian.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <span>

#include "nft/base/status.h"
#include "nft/netlink/messages.h"
#include "nft/netlink/socket.h"

namespace svcmap::testing {
namespace {

constexpr size_t kPerSend = 64;
constexpr uint32_t kTimeoutSeconds = 3600;
constexpr std::chrono::milliseconds kAnswerTimeout{5000};

void PutTuple(nlmsghdr* header, uint16_t type, FlowProtocol protocol, const nft::FlowTuple& tuple) {
  const bool v4 = tuple.source.address.family() == Family::kIpv4;
  const auto put = [&](uint16_t attribute, const IpAddress& address) {
    mnl_attr_put(header, attribute, address.size(), address.bytes().data());
  };
  nlattr* nest = mnl_attr_nest_start(header, type);
  nlattr* ip = mnl_attr_nest_start(header, CTA_TUPLE_IP);
  put(v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, tuple.source.address);
  put(v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, tuple.destination.address);
  mnl_attr_nest_end(header, ip);
  nlattr* proto = mnl_attr_nest_start(header, CTA_TUPLE_PROTO);
  mnl_attr_put_u8(header, CTA_PROTO_NUM, static_cast<uint8_t>(protocol));
  mnl_attr_put_u16(header, CTA_PROTO_SRC_PORT, htobe16(tuple.source.port));
  mnl_attr_put_u16(header, CTA_PROTO_DST_PORT, htobe16(tuple.destination.port));
  mnl_attr_nest_end(header, proto);
  mnl_attr_nest_end(header, nest);
}

nlmsghdr* WriteCreation(uint8_t* buffer, const TrackedFlow& flow) {
  nlmsghdr* header = mnl_nlmsg_put_header(buffer);
  header->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW;
  header->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL;
  auto* extra = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg)));
  const bool v4 = flow.original.source.address.family() == Family::kIpv4;
  extra->nfgen_family = v4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
  PutTuple(header, CTA_TUPLE_ORIG, flow.protocol, flow.original);
  PutTuple(header, CTA_TUPLE_REPLY, flow.protocol, flow.reply);
  if (flow.original.zone != 0) mnl_attr_put_u16(header, CTA_ZONE, htobe16(flow.original.zone));
  mnl_attr_put_u32(header, CTA_TIMEOUT, htobe32(kTimeoutSeconds));
  return header;
}

absl::Status AddSome(nft::Socket& socket, std::span<const TrackedFlow> flows, uint32_t first) {
  std::vector<uint8_t> bytes;
  alignas(nlmsghdr) uint8_t buffer[512];
  for (size_t i = 0; i < flows.size(); ++i) {
    nlmsghdr* message = WriteCreation(buffer, flows[i]);
    message->nlmsg_seq = first + static_cast<uint32_t>(i);
    if (i + 1 == flows.size()) message->nlmsg_flags |= NLM_F_ACK;
    bytes.insert(bytes.end(), buffer, buffer + MNL_ALIGN(message->nlmsg_len));
  }
  if (absl::Status sent = socket.Send(bytes); !sent.ok()) return sent;
  for (;;) {
    const auto datagram = socket.Receive(kAnswerTimeout);
    if (!datagram.ok()) return datagram.status();
    if (datagram->empty()) return ErrnoStatus(ETIMEDOUT, "wait for ctnetlink");
    for (const nlmsghdr* message : nft::Messages(*datagram)) {
      const size_t index = message->nlmsg_seq - first;
      if (message->nlmsg_type != NLMSG_ERROR || index >= flows.size()) continue;
      const int error = -static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message))->error;
      if (error != 0) return ErrnoStatus(error, "add " + flows[index].ToString());
      return absl::OkStatus();
    }
  }
}

std::string Text(const nft::FlowEnd& end) {
  const std::string address = end.address.ToString();
  const bool v4 = end.address.family() == Family::kIpv4;
  return (v4 ? address : "[" + address + "]") + ":" + std::to_string(end.port);
}

}  // namespace

std::string TrackedFlow::ToString() const {
  const char* name = protocol == FlowProtocol::kUdp   ? "udp "
                     : protocol == FlowProtocol::kTcp ? "tcp "
                                                      : "sctp ";
  return name + Text(original.source) + " > " + Text(original.destination) + ", answers " +
         Text(reply.source);
}

TrackedFlow AFlow(const nft::FlowEnd& client, const nft::FlowEnd& destination,
                  const nft::FlowEnd& answers) {
  return {.original = {client, destination}, .reply = {answers, client}};
}

absl::Status AddTrackedFlows(const std::vector<TrackedFlow>& flows) {
  absl::StatusOr<nft::Socket> socket = nft::Socket::Open(NETLINK_NETFILTER);
  if (!socket.ok()) return socket.status();
  for (size_t done = 0; done < flows.size(); done += kPerSend) {
    const auto some = std::span(flows).subspan(done, std::min(kPerSend, flows.size() - done));
    const absl::Status status = AddSome(*socket, some, static_cast<uint32_t>(done) + 1);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

uint64_t TrackedFlowCount() {
  uint64_t count = 0;
  std::ifstream("/proc/sys/net/netfilter/nf_conntrack_count") >> count;
  return count;
}

}  // namespace svcmap::testing
