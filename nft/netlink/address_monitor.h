// The addresses of this network namespace's interfaces, now and whenever they change.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "nft/base/unique_fd.h"
#include "nft/netlink/socket.h"
#include "nft/types/ip_address.h"

namespace svcmap::nft {

class AddressMonitor {
 public:
  // Calls `on_change` with all addresses once before it returns, then on a thread of its own.
  // IPv6 addresses that are still tentative are left out. Opens its sockets in the caller's network
  // namespace.
  static absl::StatusOr<std::unique_ptr<AddressMonitor>> Start(
      std::function<void(std::vector<IpAddress>)> on_change);
  ~AddressMonitor();

 private:
  AddressMonitor(std::function<void(std::vector<IpAddress>)> on_change, Socket events,
                 Socket requests, UniqueFd stop);
  void Run();
  absl::StatusOr<std::vector<IpAddress>> Read();

  const std::function<void(std::vector<IpAddress>)> on_change_;
  Socket events_;
  Socket requests_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace svcmap::nft
