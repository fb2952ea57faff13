#include "nft/netlink/monitor.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr size_t kReceiveBuffer = 4 * 1024 * 1024;

// The attribute that names the table, of all messages that change one. 1 in each of them, which the
// kernel's ABI fixes: NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, NFTA_SET_TABLE,
// NFTA_SET_ELEM_LIST_TABLE.
constexpr uint16_t kTableAttribute = 1;

const char* Describe(unsigned type) {
  switch (type) {
    case NFT_MSG_NEWTABLE:
      return "table added";
    case NFT_MSG_DELTABLE:
      return "table deleted";
    case NFT_MSG_NEWCHAIN:
      return "chain added or changed";
    case NFT_MSG_DELCHAIN:
      return "chain deleted";
    case NFT_MSG_NEWRULE:
      return "rule added";
    case NFT_MSG_DELRULE:
      return "rule deleted";
    case NFT_MSG_NEWSET:
      return "set added or changed";
    case NFT_MSG_DELSET:
      return "set deleted";
    case NFT_MSG_NEWSETELEM:
      return "element added";
    case NFT_MSG_DELSETELEM:
      return "element deleted";
    default:
      return nullptr;
  }
}

std::string Text(const nlattr* attribute) {
  const auto* text = static_cast<const char*>(mnl_attr_get_payload(attribute));
  return {text, strnlen(text, mnl_attr_get_payload_len(attribute))};
}

// "nft (pid 123)" from the message that ends each transaction.
std::string Author(const nlmsghdr* message) {
  std::string name = "an unknown process";
  std::string pid;
  for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
    const unsigned type = mnl_attr_get_type(attribute);
    if (type == NFTA_GEN_PROC_NAME) name = Text(attribute);
    if (type == NFTA_GEN_PROC_PID && mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)) {
      pid = " (pid " + std::to_string(be32toh(mnl_attr_get_u32(attribute))) + ")";
    }
  }
  return name + pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(
    std::string table, uint32_t own_port_id, std::function<void(const std::string&)> on_change) {
  absl::StatusOr<Socket> socket = Socket::Open(NETLINK_NETFILTER);
  if (!socket.ok()) return socket.status();
  socket->RequestReceiveBuffer(kReceiveBuffer);
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.ok()) return ErrnoStatus(errno, "make an eventfd");
  std::unique_ptr<Monitor> monitor(new Monitor(std::move(table), own_port_id, std::move(on_change),
                                               *std::move(socket), std::move(stop)));
  monitor->Resume();
  monitor->thread_ = std::thread([m = monitor.get()] { m->Run(); });
  return monitor;
}

Monitor::Monitor(std::string table, uint32_t own_port_id,
                 std::function<void(const std::string&)> on_change, Socket socket, UniqueFd stop)
    : table_(std::move(table)),
      own_port_id_(own_port_id),
      on_change_(std::move(on_change)),
      socket_(std::move(socket)),
      stop_(std::move(stop)) {}

Monitor::~Monitor() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) == sizeof(one) && thread_.joinable()) thread_.join();
}

void Monitor::Pause() {
  const int group = NFNLGRP_NFTABLES;
  setsockopt(socket_.fd(), SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &group, sizeof(group));
}

void Monitor::Resume() {
  const int group = NFNLGRP_NFTABLES;
  setsockopt(socket_.fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group));
}

void Monitor::Run() {
  for (;;) {
    pollfd waiting[] = {{socket_.fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0) continue;
    if (waiting[1].revents != 0) return;
    const auto datagram = socket_.Receive(std::chrono::milliseconds(0));
    if (datagram.ok()) {
      Read(*datagram);
    } else if (absl::IsResourceExhausted(datagram.status())) {
      on_change_("notifications were lost");
    }
  }
}

void Monitor::Read(std::span<const uint8_t> datagram) {
  for (const nlmsghdr* message : Messages(datagram)) {
    if (message->nlmsg_pid == own_port_id_ ||
        mnl_nlmsg_get_payload_len(message) < sizeof(nfgenmsg)) {
      continue;
    }
    const unsigned type = message->nlmsg_type & 0xff;
    if (type == NFT_MSG_NEWGEN) {
      if (!seen_.empty()) on_change_(seen_ + " by " + Author(message));
      seen_.clear();
      continue;
    }
    const char* what = Describe(type);
    if (what == nullptr || !seen_.empty()) continue;
    for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
      if (mnl_attr_get_type(attribute) == kTableAttribute && Text(attribute) == table_)
        seen_ = what;
    }
  }
}

}  // namespace svcmap::nft
