#include "nft/netlink/address_monitor.h"

#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
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

bool IsOfDefaultRoute(const nlmsghdr* message) {
  if (message->nlmsg_type != RTM_NEWROUTE && message->nlmsg_type != RTM_DELROUTE) return false;
  if (mnl_nlmsg_get_payload_len(message) < sizeof(rtmsg)) return false;
  return static_cast<const rtmsg*>(mnl_nlmsg_get_payload(message))->rtm_dst_len == 0;
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
    auto rest = hops.subspan(sizeof(hop), hop.rtnh_len - sizeof(hop));
    while (rest.size() >= sizeof(nlattr)) {
      const auto* attribute = reinterpret_cast<const nlattr*>(rest.data());
      if (!mnl_attr_ok(attribute, static_cast<int>(rest.size()))) break;
      AddGateway(attribute, gateways);
      rest = rest.subspan(std::min<size_t>(MNL_ALIGN(attribute->nla_len), rest.size()));
    }
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
  std::optional<IpAddress> address;
  bool local = false;
  for (const nlattr* attribute : Attributes(message, sizeof(ifaddrmsg))) {
    const unsigned type = mnl_attr_get_type(attribute);
    if (type == IFA_LOCAL || (type == IFA_ADDRESS && !local)) {
      address = IpAddress::FromBytes(AttributeBytes(attribute));
      local |= type == IFA_LOCAL;
    } else if (type == IFA_FLAGS && mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)) {
      flags = mnl_attr_get_u32(attribute);
    }
  }
  if (!address || (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return std::nullopt;
  const size_t bits = address->size() * 8;
  return InterfaceAddress{*address,
                          static_cast<uint8_t>(std::min<size_t>(header->ifa_prefixlen, bits)), ""};
}

std::vector<IpAddress> ReadGateways(const nlmsghdr* message) {
  std::vector<IpAddress> gateways;
  if (!IsOfDefaultRoute(message)) return gateways;
  const auto* header = static_cast<const rtmsg*>(mnl_nlmsg_get_payload(message));
  if (header->rtm_table != RT_TABLE_MAIN || header->rtm_type != RTN_UNICAST) return gateways;
  for (const nlattr* attribute : Attributes(message, sizeof(rtmsg))) {
    AddGateway(attribute, gateways);
    if (mnl_attr_get_type(attribute) == RTA_MULTIPATH) {
      AddNextHops(AttributeBytes(attribute), gateways);
    }
  }
  return gateways;
}

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

// Reads everything again after a change, because a node has few addresses. Routes change more often
// than addresses, for example with each pod, so only default routes count.
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
      return true;
    }
    if (datagram->empty()) return changed;
    for (const nlmsghdr* message : Messages(*datagram)) {
      const bool is_route =
          message->nlmsg_type == RTM_NEWROUTE || message->nlmsg_type == RTM_DELROUTE;
      changed |= !is_route || IsOfDefaultRoute(message);
    }
  }
  return true;
}

absl::Status AddressMonitor::OpenSockets() {
  if (!events_) {
    absl::StatusOr<Socket> events = Socket::Open(NETLINK_ROUTE, faults_);
    if (!events.ok()) return events.status();
    for (const int group :
         {RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE}) {
      if (absl::Status joined = events->JoinGroup(group); !joined.ok()) {
        return Annotate(joined, "listen to address changes");
      }
    }
    events_ = *std::move(events);
  }
  if (!requests_) {
    absl::StatusOr<Socket> requests = Socket::Open(NETLINK_ROUTE, faults_);
    if (!requests.ok()) return requests.status();
    requests_ = *std::move(requests);
  }
  return absl::OkStatus();
}

absl::Status AddressMonitor::Refresh() {
  if (absl::Status status = OpenSockets(); !status.ok()) return status;
  absl::StatusOr<NodeAddresses> addresses = Read();
  if (!addresses.ok()) {
    // Closes the socket, because a late response could be mistaken for the response to the next
    // request.
    requests_.reset();
    return addresses.status();
  }
  on_change_(*std::move(addresses));
  return absl::OkStatus();
}

absl::StatusOr<NodeAddresses> AddressMonitor::Read() {
  alignas(nlmsghdr) uint8_t buffer[64];
  nlmsghdr* request = mnl_nlmsg_put_header(buffer);
  request->nlmsg_type = RTM_GETADDR;
  request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  mnl_nlmsg_put_extra_header(request, sizeof(ifaddrmsg));
  NodeAddresses node;
  std::map<uint32_t, std::string> names;
  absl::Status status = Dump(
      *requests_, request,
      [&](const nlmsghdr* message) {
        if (message->nlmsg_type != RTM_NEWADDR) return;
        std::optional<InterfaceAddress> address = ReadAddress(message);
        if (!address) return;
        const auto [name, added] = names.try_emplace(InterfaceIndex(message));
        if (added) name->second = InterfaceName(name->first);
        address->interface = name->second;
        node.interfaces.push_back(*std::move(address));
      },
      [&] { node.interfaces.clear(); });
  if (!status.ok()) return Annotate(status, "read the interface addresses");
  const uint32_t sequence = request->nlmsg_seq;
  request = mnl_nlmsg_put_header(buffer);
  request->nlmsg_type = RTM_GETROUTE;
  request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request->nlmsg_seq = sequence + 1;
  mnl_nlmsg_put_extra_header(request, sizeof(rtmsg));
  status = Dump(
      *requests_, request,
      [&](const nlmsghdr* message) {
        const std::vector<IpAddress> found = ReadGateways(message);
        node.gateways.insert(node.gateways.end(), found.begin(), found.end());
      },
      [&] { node.gateways.clear(); });
  if (!status.ok()) return Annotate(status, "read the default routes");
  std::sort(node.gateways.begin(), node.gateways.end());
  node.gateways.erase(std::unique(node.gateways.begin(), node.gateways.end()), node.gateways.end());
  return node;
}

}  // namespace svcmap::nft
