#include "nft/netlink/address_monitor.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/filter.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <span>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/dump.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr int kRetryMilliseconds = 500;

// Returns the name of the interface, or an empty string if the interface is gone.
std::string InterfaceName(uint32_t index) {
  char name[IF_NAMESIZE] = {};
  return if_indextoname(index, name) == nullptr ? "" : name;
}

uint32_t InterfaceIndex(const nlmsghdr* message) {
  return static_cast<const ifaddrmsg*>(mnl_nlmsg_get_payload(message))->ifa_index;
}

bool IsRoute(const nlmsghdr* message) {
  return message->nlmsg_type == RTM_NEWROUTE || message->nlmsg_type == RTM_DELROUTE;
}

const rtmsg* RouteIn(const nlmsghdr* message) {
  return static_cast<const rtmsg*>(mnl_nlmsg_get_payload(message));
}

// Accepts all messages except messages about routes that are no default routes. Routes change more
// often than addresses, for example with each pod or each BGP update. Each notification is one
// message.
absl::Status IgnoreOtherRoutes(Socket& events) {
  constexpr size_t kLength = sizeof(nlmsghdr) + offsetof(rtmsg, rtm_dst_len);
  sock_filter filter[] = {
      // BPF reads in network byte order, netlink writes in host byte order.
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(nlmsghdr, nlmsg_type)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWROUTE), 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELROUTE), 0, 3),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kLength),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
  };
  return events.SetFilter(filter);
}

// Returns true if the destination of the route starts at the address 0, such as 0.0.0.0/0 or
// 0.0.0.0/8.
bool StartsAtZero(const nlmsghdr* message) {
  const auto bytes = AttributeBytes(AttributeTable(message, sizeof(rtmsg))[RTA_DST]);
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

void AddGateway(const nlattr* attribute, std::vector<IpAddress>& gateways) {
  if (mnl_attr_get_type(attribute) != RTA_GATEWAY) return;
  if (const auto gateway = IpAddress::FromBytes(AttributeBytes(attribute))) {
    gateways.push_back(*gateway);
  }
}

// Each next hop is a header that is followed by attributes.
void AddNextHops(std::span<const uint8_t> hops, std::vector<IpAddress>& gateways) {
  while (hops.size() >= sizeof(rtnexthop)) {
    rtnexthop hop;
    std::memcpy(&hop, hops.data(), sizeof(hop));
    if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > hops.size()) return;
    const auto attributes = hops.subspan(sizeof(hop), hop.rtnh_len - sizeof(hop));
    for (const nlattr* attribute : Attributes(attributes)) AddGateway(attribute, gateways);
    hops = hops.subspan(std::min<size_t>(RTNH_ALIGN(hop.rtnh_len), hops.size()));
  }
}

}  // namespace

// On a point-to-point link, IFA_LOCAL is the local address and IFA_ADDRESS is the peer's address.
// The prefix length belongs to IFA_ADDRESS. On other links, both attributes are equal.
std::optional<InterfaceAddress> ReadAddress(const nlmsghdr* message) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(ifaddrmsg)) return std::nullopt;
  const auto* header = static_cast<const ifaddrmsg*>(mnl_nlmsg_get_payload(message));
  uint32_t flags = header->ifa_flags;
  const AttributeTable attributes(message, sizeof(ifaddrmsg));
  const nlattr* local = attributes[IFA_LOCAL];
  const auto address =
      IpAddress::FromBytes(AttributeBytes(local != nullptr ? local : attributes[IFA_ADDRESS]));
  const nlattr* all_flags = attributes[IFA_FLAGS];
  if (AttributeBytes(all_flags).size() == sizeof(flags)) flags = mnl_attr_get_u32(all_flags);
  if (!address || (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return std::nullopt;
  const size_t bits = address->size() * 8;
  return InterfaceAddress{*address,
                          static_cast<uint8_t>(std::min<size_t>(header->ifa_prefixlen, bits)), ""};
}

std::vector<IpAddress> ReadGateways(const nlmsghdr* message) {
  std::vector<IpAddress> gateways;
  if (message->nlmsg_type != RTM_NEWROUTE) return gateways;
  if (mnl_nlmsg_get_payload_len(message) < sizeof(rtmsg)) return gateways;
  const rtmsg* header = RouteIn(message);
  if (header->rtm_dst_len != 0 || header->rtm_table != RT_TABLE_MAIN) return gateways;
  if (header->rtm_type != RTN_UNICAST) return gateways;
  for (const nlattr* attribute : Attributes(message, sizeof(rtmsg))) {
    AddGateway(attribute, gateways);
    if (mnl_attr_get_type(attribute) == RTA_MULTIPATH) {
      AddNextHops(AttributeBytes(attribute), gateways);
    }
  }
  return gateways;
}

namespace {

// Reads the gateways of the default routes in the main table. The kernel lists IPv4 routes in the
// order of their addresses, so an IPv4 dump ends after the default routes and leaves the remaining
// responses in the socket. IPv6 default routes come last.
absl::StatusOr<std::vector<IpAddress>> ReadDefaultRoutes(Socket& socket, uint8_t family) {
  alignas(nlmsghdr) uint8_t buffer[64];
  nlmsghdr* request = PutRequest<rtmsg>(buffer, RTM_GETROUTE, NLM_F_DUMP);
  request->nlmsg_seq = uint32_t{family} << 16;  // Differs from other requests of the socket.
  auto* filter = static_cast<rtmsg*>(mnl_nlmsg_get_payload(request));
  filter->rtm_family = family;
  filter->rtm_table = RT_TABLE_MAIN;
  std::vector<IpAddress> gateways;
  const absl::Status status = Dump(
      socket, request,
      [&](const nlmsghdr* message) {
        // A kernel without IPv6 lists the routes of other families.
        if (RouteIn(message)->rtm_family != family) return true;
        const std::vector<IpAddress> found = ReadGateways(message);
        gateways.insert(gateways.end(), found.begin(), found.end());
        return family != AF_INET || StartsAtZero(message);
      },
      [&] { gateways.clear(); });
  // Without any IPv4 route, the kernel has no main table and returns ENOENT.
  if (status.ok() || absl::IsCancelled(status) || absl::IsNotFound(status)) return gateways;
  return Annotate(status, "read the default routes");
}

}  // namespace

absl::StatusOr<std::unique_ptr<AddressMonitor>> AddressMonitor::Start(
    std::function<void(NodeAddresses)> on_change, SocketFaults* faults) {
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.ok()) return ErrnoStatus(errno, "create eventfd");
  std::unique_ptr<AddressMonitor> monitor(
      new AddressMonitor(std::move(on_change), faults, std::move(stop)));
  if (absl::Status status = monitor->Refresh(); !status.ok()) return status;
  monitor->thread_ = std::thread([m = monitor.get()] { m->Run(); });
  return monitor;
}

AddressMonitor::AddressMonitor(std::function<void(NodeAddresses)> on_change, SocketFaults* faults,
                               UniqueFd stop)
    : on_change_(std::move(on_change)), faults_(faults), stop_(std::move(stop)) {}

AddressMonitor::~AddressMonitor() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) == sizeof(one) && thread_.joinable()) thread_.join();
}

void AddressMonitor::Run() {
  bool current = true;
  for (;;) {
    pollfd waiting[] = {{events_ ? events_->fd() : -1, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(waiting, 2, current ? -1 : kRetryMilliseconds) < 0) continue;
    if (waiting[1].revents != 0) return;
    const bool changed = DrainEvents();
    if (changed || !current) current = Refresh().ok();
  }
}

// Returns true if an address or a default route has changed, or if events were lost.
bool AddressMonitor::DrainEvents() {
  bool changed = false;
  while (events_) {
    const auto datagram = events_->Receive(std::chrono::milliseconds(0));
    if (!datagram.ok()) {
      events_.reset();
      ipv6_gateways_.reset();
      return true;
    }
    if (datagram->empty()) return changed;
    changed = true;
    for (const nlmsghdr* message : Messages(*datagram)) {
      if (IsRoute(message) && RouteIn(message)->rtm_family == AF_INET6) ipv6_gateways_.reset();
    }
  }
  return true;
}

absl::Status AddressMonitor::OpenEvents() {
  absl::StatusOr<Socket> events = Socket::Open(NETLINK_ROUTE, faults_);
  if (!events.ok()) return events.status();
  if (absl::Status filtered = IgnoreOtherRoutes(*events); !filtered.ok()) return filtered;
  for (const int group :
       {RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE}) {
    if (absl::Status joined = events->JoinGroup(group); !joined.ok()) {
      return Annotate(joined, "listen to address changes");
    }
  }
  events_ = *std::move(events);
  return absl::OkStatus();
}

absl::Status AddressMonitor::Refresh() {
  if (!events_) {
    if (absl::Status status = OpenEvents(); !status.ok()) return status;
  }
  absl::StatusOr<NodeAddresses> addresses = Read();
  if (!addresses.ok()) return addresses.status();
  on_change_(*std::move(addresses));
  return absl::OkStatus();
}

absl::StatusOr<NodeAddresses> AddressMonitor::Read() {
  // A new socket for each call, because the last dump can leave responses in the socket.
  absl::StatusOr<Socket> socket = Socket::Open(NETLINK_ROUTE, faults_);
  if (!socket.ok()) return socket.status();
  if (absl::Status strict = socket->SetStrictChecking(); !strict.ok()) return strict;
  NodeAddresses node;
  std::map<uint32_t, std::string> names;
  alignas(nlmsghdr) uint8_t buffer[64];
  absl::Status status = Dump(
      *socket, PutRequest<ifaddrmsg>(buffer, RTM_GETADDR, NLM_F_DUMP),
      [&](const nlmsghdr* message) {
        if (message->nlmsg_type != RTM_NEWADDR) return true;
        std::optional<InterfaceAddress> address = ReadAddress(message);
        if (!address) return true;
        const auto [name, added] = names.try_emplace(InterfaceIndex(message));
        if (added) name->second = InterfaceName(name->first);
        address->interface = name->second;
        node.interfaces.push_back(*std::move(address));
        return true;
      },
      [&] { node.interfaces.clear(); });
  if (!status.ok()) return Annotate(status, "read the interface addresses");
  if (!ipv6_gateways_) {
    absl::StatusOr<std::vector<IpAddress>> gateways = ReadDefaultRoutes(*socket, AF_INET6);
    if (!gateways.ok()) return gateways.status();
    ipv6_gateways_ = *std::move(gateways);
  }
  // IPv4 gateways are read after each event, because the kernel does not report IPv4 routes that it
  // deletes together with an address.
  absl::StatusOr<std::vector<IpAddress>> gateways = ReadDefaultRoutes(*socket, AF_INET);
  if (!gateways.ok()) return gateways.status();
  node.gateways = *std::move(gateways);
  node.gateways.insert(node.gateways.end(), ipv6_gateways_->begin(), ipv6_gateways_->end());
  std::sort(node.gateways.begin(), node.gateways.end());
  node.gateways.erase(std::unique(node.gateways.begin(), node.gateways.end()), node.gateways.end());
  return node;
}

}  // namespace svcmap::nft
