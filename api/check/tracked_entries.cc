#include "api/check/tracked_entries.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "nft/base/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

using Bytes = std::span<const uint8_t>;

// Attributes by type. Unknown types are ignored.
using Attributes = std::array<Bytes, 32>;

Attributes Parse(Bytes bytes) {
  Attributes attributes;
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.nla_len < sizeof(header) || header.nla_len > bytes.size()) break;
    const size_t type = header.nla_type & NLA_TYPE_MASK;
    if (type < attributes.size()) {
      attributes[type] = bytes.subspan(sizeof(header), header.nla_len - sizeof(header));
    }
    bytes = bytes.subspan(std::min<size_t>(NLA_ALIGN(header.nla_len), bytes.size()));
  }
  return attributes;
}

uint16_t PortOf(Bytes bytes) {
  uint16_t port = 0;
  if (bytes.size() >= sizeof(port)) std::memcpy(&port, bytes.data(), sizeof(port));
  return ntohs(port);
}

// Returns nullopt if the protocol has no ports, or is not a protocol of Services.
std::optional<proxy::Protocol> ProtocolOf(Bytes tuple) {
  const Bytes number = Parse(Parse(tuple)[CTA_TUPLE_PROTO])[CTA_PROTO_NUM];
  if (number.empty()) return std::nullopt;
  switch (number[0]) {
    case IPPROTO_TCP:
    case IPPROTO_UDP:
    case IPPROTO_SCTP:
      return static_cast<proxy::Protocol>(number[0]);
    default:
      return std::nullopt;
  }
}

std::optional<nft::FlowTuple> TupleOf(Bytes bytes) {
  const Attributes tuple = Parse(bytes);
  const Attributes ip = Parse(tuple[CTA_TUPLE_IP]);
  const Attributes proto = Parse(tuple[CTA_TUPLE_PROTO]);
  const bool v6 = !ip[CTA_IP_V6_SRC].empty();
  const auto source = IpAddress::FromBytes(ip[v6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC]);
  const auto destination = IpAddress::FromBytes(ip[v6 ? CTA_IP_V6_DST : CTA_IP_V4_DST]);
  if (!source || !destination) return std::nullopt;
  return nft::FlowTuple{.source = {*source, PortOf(proto[CTA_PROTO_SRC_PORT])},
                        .destination = {*destination, PortOf(proto[CTA_PROTO_DST_PORT])}};
}

void TakeEntry(Bytes payload, const std::function<void(const TrackedEntry&)>& take) {
  if (payload.size() < sizeof(nfgenmsg)) return;
  const Attributes entry = Parse(payload.subspan(sizeof(nfgenmsg)));
  const std::optional<proxy::Protocol> protocol = ProtocolOf(entry[CTA_TUPLE_ORIG]);
  if (!protocol) return;
  const std::optional<nft::FlowTuple> original = TupleOf(entry[CTA_TUPLE_ORIG]);
  const std::optional<nft::FlowTuple> reply = TupleOf(entry[CTA_TUPLE_REPLY]);
  if (!original || !reply) return;
  uint32_t id = 0;
  if (entry[CTA_ID].size() == sizeof(id)) std::memcpy(&id, entry[CTA_ID].data(), sizeof(id));
  take({*protocol, original->source, original->destination, reply->source, id});
}

}  // namespace

absl::Status ForEachTrackedEntry(const std::function<void(const TrackedEntry&)>& take) {
  const std::string what = "list connection tracking entries";
  const UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  if (!fd.ok()) return ErrnoStatus(errno, what);
  const timeval timeout = {.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  struct {
    nlmsghdr header = {};
    nfgenmsg body = {};
  } request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (send(fd.get(), &request, sizeof(request), 0) < 0) return ErrnoStatus(errno, what);
  std::vector<uint8_t> buffer(64 * 1024);
  for (;;) {
    const ssize_t size = recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (size < 0) return ErrnoStatus(errno, what);
    Bytes rest(buffer.data(), static_cast<size_t>(size));
    while (rest.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header;
      std::memcpy(&header, rest.data(), sizeof(header));
      if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > rest.size()) break;
      const Bytes payload = rest.subspan(sizeof(header), header.nlmsg_len - sizeof(header));
      if (header.nlmsg_type == NLMSG_DONE) return absl::OkStatus();
      if (header.nlmsg_type == NLMSG_ERROR) {
        int error = 0;
        if (payload.size() >= sizeof(error)) std::memcpy(&error, payload.data(), sizeof(error));
        return ErrnoStatus(-error, what);
      }
      TakeEntry(payload, take);
      rest = rest.subspan(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
    }
  }
}

}  // namespace svcmap::api
