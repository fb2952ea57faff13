#include "nft/netlink/address_monitor.h"

#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/dump.h"

namespace svcmap::nft {
namespace {

constexpr int kRetryMilliseconds = 500;

}  // namespace

// On a point-to-point link, IFA_LOCAL is the local address and IFA_ADDRESS is the peer's address.
// On other links, both attributes are equal.
std::optional<IpAddress> ReadAddress(const nlmsghdr* message) {
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
  if ((flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return std::nullopt;
  return address;
}

absl::StatusOr<std::unique_ptr<AddressMonitor>> AddressMonitor::Start(
    std::function<void(std::vector<IpAddress>)> on_change, SocketFaults* faults) {
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.ok()) return ErrnoStatus(errno, "create eventfd");
  std::unique_ptr<AddressMonitor> monitor(
      new AddressMonitor(std::move(on_change), faults, std::move(stop)));
  if (absl::Status status = monitor->Refresh(); !status.ok()) return status;
  monitor->thread_ = std::thread([m = monitor.get()] { m->Run(); });
  return monitor;
}

AddressMonitor::AddressMonitor(std::function<void(std::vector<IpAddress>)> on_change,
                               SocketFaults* faults, UniqueFd stop)
    : on_change_(std::move(on_change)), faults_(faults), stop_(std::move(stop)) {}

AddressMonitor::~AddressMonitor() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) == sizeof(one) && thread_.joinable()) thread_.join();
}

// Reads all addresses again after each event, including a lost event, because a node has few
// addresses.
void AddressMonitor::Run() {
  bool current = true;
  for (;;) {
    pollfd waiting[] = {{events_ ? events_->fd() : -1, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(waiting, 2, current ? -1 : kRetryMilliseconds) < 0) continue;
    if (waiting[1].revents != 0) return;
    DrainEvents();
    current = Refresh().ok();
  }
}

void AddressMonitor::DrainEvents() {
  while (events_) {
    const auto datagram = events_->Receive(std::chrono::milliseconds(0));
    if (datagram.ok() && datagram->empty()) return;
    if (!datagram.ok()) events_.reset();
  }
}

absl::Status AddressMonitor::OpenSockets() {
  if (!events_) {
    absl::StatusOr<Socket> events = Socket::Open(NETLINK_ROUTE, faults_);
    if (!events.ok()) return events.status();
    for (const int group : {RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR}) {
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
  absl::StatusOr<std::vector<IpAddress>> addresses = Read();
  if (!addresses.ok()) {
    // Closes the socket, because a late response could be mistaken for the response to the next
    // request.
    requests_.reset();
    return addresses.status();
  }
  on_change_(*std::move(addresses));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<IpAddress>> AddressMonitor::Read() {
  alignas(nlmsghdr) uint8_t buffer[64];
  nlmsghdr* request = mnl_nlmsg_put_header(buffer);
  request->nlmsg_type = RTM_GETADDR;
  request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  mnl_nlmsg_put_extra_header(request, sizeof(ifaddrmsg));
  std::vector<IpAddress> addresses;
  const absl::Status status = Dump(
      *requests_, request,
      [&](const nlmsghdr* message) {
        if (message->nlmsg_type != RTM_NEWADDR) return;
        if (const std::optional<IpAddress> address = ReadAddress(message)) {
          addresses.push_back(*address);
        }
      },
      [&] { addresses.clear(); });
  if (!status.ok()) return Annotate(status, "read the interface addresses");
  return addresses;
}

}  // namespace svcmap::nft
