// The addresses of a node, and what the node reaches directly.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nft/types/ip_address.h"

namespace svcmap {

struct InterfaceAddress {
  IpAddress address;
  uint8_t length = 0;  // Prefix length of the network. 32 or 128 for a single address.
  std::string interface;

  IpPrefix network() const { return {address, length}; }
  bool IsSingle() const { return length == address.size() * 8; }
};

struct NodeAddresses {
  NodeAddresses() = default;
  // Addresses without networks.
  NodeAddresses(const std::vector<IpAddress>& addresses) {  // NOLINT(google-explicit-constructor)
    for (const IpAddress& address : addresses) {
      interfaces.push_back({address, static_cast<uint8_t>(address.size() * 8), ""});
    }
  }

  std::vector<InterfaceAddress> interfaces;  // Without tentative IPv6 addresses.
  std::vector<IpAddress> gateways;           // Of the default routes, without duplicates.
};

}  // namespace svcmap
