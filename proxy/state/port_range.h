// Divides a port range into the elements of the maps for ports and for blocks of 256 ports. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace svcmap::proxy {

inline constexpr uint32_t kPortsPerBlock = 256;

struct PortElements {
  std::vector<uint16_t> ports;  // Ports outside of complete blocks, ascending.
  std::vector<uint8_t> blocks;  // High bytes of the ports of complete blocks, ascending.

  size_t size() const { return ports.size() + blocks.size(); }
};

// Requires 1 <= first <= last. Port 0 does not exist, so a range that begins with port 1 contains
// the complete first block.
inline PortElements DividePorts(uint16_t first, uint16_t last) {
  PortElements elements;
  const uint32_t end = uint32_t{last} + 1;
  for (uint32_t port = first == 1 ? 0 : first; port < end;) {
    if (port % kPortsPerBlock == 0 && port + kPortsPerBlock <= end) {
      elements.blocks.push_back(static_cast<uint8_t>(port / kPortsPerBlock));
      port += kPortsPerBlock;
    } else {
      if (port != 0) elements.ports.push_back(static_cast<uint16_t>(port));
      ++port;
    }
  }
  return elements;
}

}  // namespace svcmap::proxy
