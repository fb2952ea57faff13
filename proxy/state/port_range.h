// Divides a port range into the elements of the maps for ports and for blocks of 256 ports. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace svcmap::proxy {

inline constexpr uint32_t kPortsPerBlock = 256;
// Maximum number of elements of a range at one address: two edges and the blocks between them.
inline constexpr size_t kMaxRangeElements = 2 * (kPortsPerBlock - 1) + 253;

struct PortElements {
  std::vector<uint16_t> ports;  // Ports outside of complete blocks, ascending.
  std::vector<uint8_t> blocks;  // High bytes of the ports of complete blocks, ascending.

  size_t size() const { return ports.size() + blocks.size(); }
};

// Requires 1 <= first <= last. Port 0 does not exist, so a range that begins with port 1 contains
// the complete first block.
PortElements DividePorts(uint16_t first, uint16_t last);

}  // namespace svcmap::proxy
