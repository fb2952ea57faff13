#include "nft/netlink/address_monitor.h"

#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/dump.h"

namespace svcmap::nft {
namespace {

// IFA_LOCAL is the address itself where the link is point to point; else both are the same.
void ReadAddress(const nlmsghdr* message, std::vector<IpAddress>& addresses) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(ifaddrmsg)) return;
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
  if (address && (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) == 0) addresses.push_back(*address);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AddressMonitor>> AddressMonitor::Start(
    std::function<void(std::vector<IpAddress>)> on_change) {
  absl::StatusOr<Socket> events = Socket::Open(NETLINK_ROUTE);
  if (!events.ok()) return events.status();
  for (const int group : {RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR}) {
    if (setsockopt(events->fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) != 0) {
      return ErrnoStatus(errno, "listen to address changes");
    }
  }
  absl::StatusOr<Socket> requests = Socket::Open(NETLINK_ROUTE);
  if (!requests.ok()) return requests.status();
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.ok()) return ErrnoStatus(errno, "make an eventfd");
  std::unique_ptr<AddressMonitor> monitor(new AddressMonitor(
      std::move(on_change), *std::move(events), *std::move(requests), std::move(stop)));
  absl::StatusOr<std::vector<IpAddress>> addresses = monitor->Read();
  if (!addresses.ok()) return addresses.status();
  monitor->on_change_(*std::move(addresses));
  monitor->thread_ = std::thread([m = monitor.get()] { m->Run(); });
  return monitor;
}

AddressMonitor::AddressMonitor(std::function<void(std::vector<IpAddress>)> on_change, Socket events,
                               Socket requests, UniqueFd stop)
    : on_change_(std::move(on_change)),
      events_(std::move(events)),
      requests_(std::move(requests)),
      stop_(std::move(stop)) {}

AddressMonitor::~AddressMonitor() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) == sizeof(one) && thread_.joinable()) thread_.join();
}

// Any event, also a lost one, means: read them all again. They are few.
void AddressMonitor::Run() {
  for (;;) {
    pollfd waiting[] = {{events_.fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0) continue;
    if (waiting[1].revents != 0) return;
    for (;;) {
      const auto datagram = events_.Receive(std::chrono::milliseconds(0));
      if (datagram.ok() && datagram->empty()) break;
    }
    absl::StatusOr<std::vector<IpAddress>> addresses = Read();
    if (addresses.ok()) on_change_(*std::move(addresses));
  }
}

absl::StatusOr<std::vector<IpAddress>> AddressMonitor::Read() {
  alignas(nlmsghdr) uint8_t buffer[64];
  nlmsghdr* request = mnl_nlmsg_put_header(buffer);
  request->nlmsg_type = RTM_GETADDR;
  request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  mnl_nlmsg_put_extra_header(request, sizeof(ifaddrmsg));
  std::vector<IpAddress> addresses;
  const absl::Status status = Dump(
      requests_, request,
      [&](const nlmsghdr* message) {
        if (message->nlmsg_type == RTM_NEWADDR) ReadAddress(message, addresses);
      },
      [&] { addresses.clear(); });
  if (!status.ok()) return Annotate(status, "read the interface addresses");
  return addresses;
}

}  // namespace svcmap::nft
