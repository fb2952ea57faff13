// Fault injection for tests: a Socket calls its SocketFaults object, if any, before each system
// call.
//
// Threads that use sockets call these methods concurrently.
#pragma once

#include <cstdint>
#include <span>

namespace svcmap::nft {

class SocketFaults {
 public:
  // Fault to inject for a received datagram.
  struct Receipt {
    int error = 0;       // If not 0, the call loses the datagram and fails with this errno.
    bool drop = false;   // True if the datagram is discarded.
    bool late = false;   // True if the first call after a timeout returns the datagram.
    bool twice = false;  // True if the next call returns the datagram again.
  };

  virtual ~SocketFaults() = default;

  // Each method returns an errno to skip the system call and fail with this error, or 0 to make the
  // system call.
  virtual int OnOpen(int protocol) = 0;
  virtual int OnSetOption(int option) = 0;
  virtual int OnSend(uint32_t port_id, std::span<const uint8_t> bytes) = 0;

  virtual Receipt OnReceive(uint32_t port_id, std::span<const uint8_t> datagram) = 0;
};

}  // namespace svcmap::nft
