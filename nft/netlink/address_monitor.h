// Watches the addresses of all interfaces and the gateways of the default routes in one network
// namespace. After an error, the monitor opens new sockets and retries until it succeeds. The cost
// of an event does not depend on the number of routes, unless an IPv6 default route changes.
#pragma once

#include <linux/netlink.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "nft/base/unique_fd.h"
#include "nft/netlink/socket.h"
#include "nft/types/node_addresses.h"

namespace svcmap::nft {

// Parses one RTM_NEWADDR message. Returns nullopt if the address is tentative. Does not set the
// name of the interface.
std::optional<InterfaceAddress> ReadAddress(const nlmsghdr* message);

// Parses one RTM_NEWROUTE message. Returns the gateways of a default route in the main table.
// Returns no addresses for other routes.
std::vector<IpAddress> ReadGateways(const nlmsghdr* message);

class AddressMonitor {
 public:
  // Calls `on_change` once before Start returns, and later on the monitor's own thread after each
  // change. Start opens sockets in the caller's network namespace.
  static absl::StatusOr<std::unique_ptr<AddressMonitor>> Start(
      std::function<void(NodeAddresses)> on_change, SocketFaults* faults = nullptr);
  ~AddressMonitor();

 private:
  AddressMonitor(std::function<void(NodeAddresses)> on_change, SocketFaults* faults, UniqueFd stop);
  void Run();
  bool DrainEvents();
  absl::Status OpenEvents();
  absl::Status Refresh();
  absl::StatusOr<NodeAddresses> Read();

  const std::function<void(NodeAddresses)> on_change_;
  SocketFaults* const faults_;
  std::optional<Socket> events_;
  // Gateways of IPv6 default routes, or nullopt if the gateways must be read.
  std::optional<std::vector<IpAddress>> ipv6_gateways_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace svcmap::nft
