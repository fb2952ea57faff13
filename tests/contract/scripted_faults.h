// Faults that a test specifies for each call. While sockets are in use, a test must hold `mutex` to
// set a member. A running member may also set members, because each member is copied before it is
// called.
#pragma once

#include <functional>
#include <mutex>
#include <span>

#include "nft/netlink/socket_faults.h"

namespace svcmap::nft {

class ScriptedFaults final : public SocketFaults {
 public:
  int OnOpen(int protocol) override {
    const std::lock_guard lock(mutex);
    const auto fault = open;
    return fault ? fault(protocol) : 0;
  }
  int OnSetOption(int option) override {
    const std::lock_guard lock(mutex);
    const auto fault = set_option;
    return fault ? fault(option) : 0;
  }
  int OnSend(uint32_t port_id, std::span<const uint8_t> bytes) override {
    const std::lock_guard lock(mutex);
    const auto fault = send;
    return fault ? fault(port_id, bytes) : 0;
  }
  Receipt OnReceive(uint32_t port_id, std::span<const uint8_t> datagram) override {
    const std::lock_guard lock(mutex);
    const auto fault = receive;
    return fault ? fault(port_id, datagram) : Receipt();
  }

  // Removes all faults.
  void Clear() {
    const std::lock_guard lock(mutex);
    open = nullptr;
    set_option = nullptr;
    send = nullptr;
    receive = nullptr;
  }

  std::mutex mutex;
  std::function<int(int)> open;
  std::function<int(int)> set_option;
  std::function<int(uint32_t, std::span<const uint8_t>)> send;
  std::function<Receipt(uint32_t, std::span<const uint8_t>)> receive;
};

}  // namespace svcmap::nft
