// The SCTP part of EchoServer: answers INIT with INIT-ACK on raw sockets.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include "tests/support/echo_server.h"
#include "tests/support/sctp_packet.h"
#include "tests/support/socket_address.h"

namespace svcmap::testing {
namespace {

union PacketInfo {
  in6_pktinfo v6;  // The largest union member is first, so that {} initializes the whole union.
  in_pktinfo v4;
};

// Returns the destination address of the packet, which is the source address of the answer.
std::string LocalIp(const PacketInfo& info, bool v6) {
  char text[INET6_ADDRSTRLEN] = "";
  if (v6) {
    ::inet_ntop(AF_INET6, &info.v6.ipi6_addr, text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET, &info.v4.ipi_addr, text, sizeof(text));
  }
  return text;
}

struct Datagram {
  std::string bytes;  // The received SCTP packet without the IP header.
  SocketAddress peer;
  PacketInfo info = {};
};

// Returns false if no packet is pending.
bool Receive(int fd, bool v6, Datagram* datagram) {
  char buffer[65536];
  alignas(cmsghdr) char control[256];
  iovec vector = {buffer, sizeof(buffer)};
  msghdr message = {};
  message.msg_name = datagram->peer.out();
  message.msg_namelen = SocketAddress::kCapacity;
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t count = ::recvmsg(fd, &message, 0);
  if (count < 0) return false;
  size_t size = static_cast<size_t>(count);
  size_t header_size = 0;
  if (!v6 && size > 0) header_size = static_cast<size_t>(buffer[0] & 0x0f) * 4;
  if (header_size > size) header_size = size;
  datagram->bytes.assign(buffer + header_size, size - header_size);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
      std::memcpy(&datagram->info.v4, CMSG_DATA(header), sizeof(in_pktinfo));
    } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
      std::memcpy(&datagram->info.v6, CMSG_DATA(header), sizeof(in6_pktinfo));
    }
  }
  return true;
}

void SendFrom(int fd, bool v6, const Datagram& received, const std::string& bytes) {
  PacketInfo info = received.info;
  size_t info_size = sizeof(info.v6);
  if (v6) {
    // Let the route select the output interface, because the packet may have arrived on another
    // interface.
    info.v6.ipi6_ifindex = 0;
  } else {
    // The kernel uses ipi_spec_dst as the source address of the answer.
    info.v4 = {0, received.info.v4.ipi_addr, {}};
    info_size = sizeof(info.v4);
  }
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(PacketInfo))] = {};
  SocketAddress peer = received.peer;
  iovec vector = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_name = peer.out();
  message.msg_namelen = peer.size();
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(info_size);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
  header->cmsg_type = v6 ? IPV6_PKTINFO : IP_PKTINFO;
  header->cmsg_len = CMSG_LEN(info_size);
  std::memcpy(CMSG_DATA(header), &info, info_size);
  ::sendmsg(fd, &message, MSG_NOSIGNAL);
}

uint32_t RandomTag() {
  thread_local std::mt19937 generator{std::random_device{}()};
  return static_cast<uint32_t>(generator()) | 1;
}

}  // namespace

void EchoServer::ServeSctp(Socket& socket) {
  for (;;) {
    Datagram datagram;
    if (!Receive(socket.fd.get(), socket.v6, &datagram)) return;
    const absl::StatusOr<SctpPacket> packet = ParseSctpPacket(datagram.bytes);
    if (packet.status().code() == absl::StatusCode::kDataLoss) ++sctp_bad_checksums_;
    if (!packet.ok() || packet->chunk_type != kSctpInit || packet->verification_tag != 0) continue;
    const auto name =
        sctp_names_.find({LocalIp(datagram.info, socket.v6), packet->destination_port});
    if (name == sctp_names_.end()) continue;

    SctpPacket reply;
    reply.source_port = packet->destination_port;
    reply.destination_port = packet->source_port;
    reply.verification_tag = packet->initiate_tag;
    reply.chunk_type = kSctpInitAck;
    reply.initiate_tag = RandomTag();
    reply.cookie = FormatAnswerLine(name->second, datagram.peer.ip(), packet->source_port);
    ++answered_;
    SendFrom(socket.fd.get(), socket.v6, datagram, BuildSctpPacket(reply));
  }
}

}  // namespace svcmap::testing
