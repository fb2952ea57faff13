// Fault injection for tests: a Socket calls its SocketFaults object, if any, before each system
// call.
//
// The methods are called concurrently on the threads that use the sockets.
#pragma once

#include <cstdint>
#include <span>

namespace svcmap::nft {

class SocketFaults {
 public:
  // Fault to inject for a received datagram.
  struct Receipt {
    int error = 0;       // Errno with which the call fails and loses the datagram, or 0.
    bool drop = false;   // The datagram is discarded.
    bool late = false;   // The datagram is returned by the first call after a timeout.
    bool twice = false;  // The datagram is returned again by the next call.
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
