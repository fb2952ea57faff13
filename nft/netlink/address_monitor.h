// Watches the addresses of all interfaces in one network namespace. After an error, the monitor
// opens new sockets and retries until it succeeds.
#pragma once

#include <linux/netlink.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "nft/base/unique_fd.h"
#include "nft/netlink/socket.h"
#include "nft/types/ip_address.h"

namespace svcmap::nft {

// Parses one RTM_NEWADDR message. Returns nullopt if the address is tentative.
std::optional<IpAddress> ReadAddress(const nlmsghdr* message);

class AddressMonitor {
 public:
  // Calls `on_change` with all addresses once before Start returns, and later on the monitor's own
  // thread after each change. Tentative IPv6 addresses are excluded. Start opens sockets in the
  // caller's network namespace.
  static absl::StatusOr<std::unique_ptr<AddressMonitor>> Start(
      std::function<void(std::vector<IpAddress>)> on_change, SocketFaults* faults = nullptr);
  ~AddressMonitor();

 private:
  AddressMonitor(std::function<void(std::vector<IpAddress>)> on_change, SocketFaults* faults,
                 UniqueFd stop);
  void Run();
  void DrainEvents();
  absl::Status OpenSockets();
  absl::Status Refresh();
  absl::StatusOr<std::vector<IpAddress>> Read();

  const std::function<void(std::vector<IpAddress>)> on_change_;
  SocketFaults* const faults_;
  std::optional<Socket> events_;
  std::optional<Socket> requests_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace svcmap::nft
