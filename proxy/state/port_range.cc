#include "proxy/state/port_range.h"

namespace svcmap::proxy {

PortElements DividePorts(uint16_t first, uint16_t last) {
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
