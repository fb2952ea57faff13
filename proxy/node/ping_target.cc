#include "proxy/node/ping_target.h"

#include <algorithm>

#include "proxy/node/nodeport_addresses.h"

namespace svcmap::proxy {

std::optional<IpAddress> PingTarget(const Node* node, const std::vector<IpAddress>& interfaces,
                                    Family family) {
  const IpAddress* own = PrimaryAddress(node, family);
  if (own != nullptr && std::find(interfaces.begin(), interfaces.end(), *own) != interfaces.end()) {
    return *own;
  }
  std::optional<IpAddress> lowest;
  for (const IpAddress& address : interfaces) {
    if (address.family() != family || address.IsLoopback() || address.IsLinkLocal()) continue;
    if (!lowest || address < *lowest) lowest = address;
  }
  return lowest;
}

}  // namespace svcmap::proxy
