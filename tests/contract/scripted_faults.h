// Faults that a test specifies for each call. While sockets are in use, a test must hold `mutex` to
// set a member. A running member may also set members, because each member is copied before it is
// called.
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>

#include "nft/netlink/socket_faults.h"

namespace svcmap::nft {

class ScriptedFaults final : public SocketFaults {
 public:
  int OnOpen(int protocol) override { return Call(open, 0, protocol); }
  int OnSetOption(int option) override { return Call(set_option, 0, option); }
  int OnSend(uint32_t port_id, std::span<const uint8_t> bytes) override {
    return Call(send, 0, port_id, bytes);
  }
  Receipt OnReceive(uint32_t port_id, std::span<const uint8_t> datagram) override {
    return Call(receive, Receipt(), port_id, datagram);
  }

  // Sets a member while sockets are in use.
  template <typename Fault>
  void Set(Fault ScriptedFaults::*member, std::type_identity_t<Fault> fault) {
    const std::lock_guard lock(mutex);
    this->*member = std::move(fault);
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

 private:
  // Returns `none` if the test has not set the fault.
  template <typename Fault, typename Result, typename... Arguments>
  Result Call(const Fault& member, Result none, Arguments... arguments) {
    const std::lock_guard lock(mutex);
    const auto fault = member;
    return fault ? fault(arguments...) : none;
  }
};

}  // namespace svcmap::nft
