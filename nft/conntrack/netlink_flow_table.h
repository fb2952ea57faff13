// The real flow table, through ctnetlink. Belongs to one thread; its sockets are opened when they
// are needed, in the network namespace of the calling thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "nft/conntrack/flow_message.h"
#include "nft/conntrack/flow_table.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

class NetlinkFlowTable : public FlowTable {
 public:
  explicit NetlinkFlowTable(SocketFaults* faults = nullptr) : faults_(faults) {}

  absl::StatusOr<Listing> ForEachUdp(std::span<const Family> families,
                                     const std::function<bool(const UdpFlow&)>& on_flow) override;
  Deletion Delete(std::span<const UdpFlow> flows) override;

 private:
  absl::StatusOr<uint32_t> Count(Socket& socket);
  bool FilterInKernel(std::span<const Family> families) const;
  void DeleteBatch(std::span<const UdpFlow> flows, Deletion& deletion);

  SocketFaults* const faults_;
  // How many flows there were, and how many of them UDP flows of each family, when last counted.
  uint64_t flows_ = 0;
  std::array<uint64_t, 2> udp_flows_ = {};
  bool filter_refused_ = false;
  std::optional<Socket> deletions_;  // Not the listing's: that one is busy.
  uint32_t sequence_ = 1;
};

}  // namespace svcmap::nft
