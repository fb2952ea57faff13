// What may go wrong between us and the kernel, for tests: a Socket that was given one of these asks
// it before each system call. Without one nothing is asked.
//
// Called on the threads that use the sockets, several at once.
#pragma once

#include <cstdint>
#include <span>

namespace svcmap::nft {

class SocketFaults {
 public:
  // What becomes of a datagram.
  struct Receipt {
    int error = 0;       // An errno that the call fails with; the datagram is lost. 0: it is read.
    bool drop = false;   // It never comes.
    bool late = false;   // It comes with the first call after one that timed out.
    bool twice = false;  // It comes again with the next call.
  };

  virtual ~SocketFaults() = default;

  // Each returns an errno that the call fails with, which then is not made; 0: it is made.
  virtual int OnOpen(int protocol) = 0;
  virtual int OnSetOption(int option) = 0;
  virtual int OnSend(uint32_t port_id, std::span<const uint8_t> bytes) = 0;

  virtual Receipt OnReceive(uint32_t port_id, std::span<const uint8_t> datagram) = 0;
};

}  // namespace svcmap::nft
