// Listens to what nf_tables tells about changes of our tables that others made: a table dropped, a
// chain or rule changed, elements added or removed, the whole ruleset flushed.
//
// A listener makes the kernel write a notification per element, so Pause and Resume leave and join
// the group around large batches; who pauses closes the gap with the generation id.
//
// Runs a thread of its own, on which the callback is called.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "nft/base/unique_fd.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

class Monitor {
 public:
  // `own_port_id` is the port id of the socket our own batches come from. `on_change` gets a text
  // for people: "table deleted by nft (pid 123)". Opens its socket in the caller's network
  // namespace.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(
      std::string table, uint32_t own_port_id, std::function<void(const std::string&)> on_change);
  ~Monitor();

  // Any thread.
  void Pause();
  void Resume();

 private:
  Monitor(std::string table, uint32_t own_port_id,
          std::function<void(const std::string&)> on_change, Socket socket, UniqueFd stop);
  void Run();
  void Read(std::span<const uint8_t> datagram);

  const std::string table_;
  const uint32_t own_port_id_;
  const std::function<void(const std::string&)> on_change_;
  Socket socket_;
  UniqueFd stop_;
  std::string seen_;  // What the transaction now being told has done to our tables.
  std::thread thread_;
};

}  // namespace svcmap::nft
