// FlowTable implementation that uses ctnetlink. All calls must come from the same thread.
// NetlinkFlowTable opens sockets on demand in the network namespace of this thread.
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

  absl::StatusOr<Listing> ForEach(std::span<const FlowKind> kinds, uint64_t max_entries,
                                  const std::function<bool(const Flow&)>& on_flow) override;
  Deletion Delete(std::span<const Flow> flows) override;

 private:
  absl::Status OpenIfClosed(std::optional<Socket>& socket);
  absl::StatusOr<uint32_t> Count(Socket& socket);
  bool FilterInKernel(std::span<const FlowKind> kinds) const;
  void DeleteBatch(std::span<const Flow> flows, Deletion& deletion);

  SocketFaults* const faults_;
  // Total number of flows, and number of flows of each FlowKind, in the last listing.
  uint64_t flows_ = 0;
  std::array<uint64_t, kFlowKinds> flows_of_kind_ = {};
  bool filter_unsupported_ = false;
  // Both sockets stay open: when a netfilter socket is closed, the kernel waits for an RCU grace
  // period while it holds the mutex for commits of nf_tables (nft_rcv_nl_event in Linux 6.18).
  // Deletions need a separate socket, because a dump may still be in progress on the other socket.
  std::optional<Socket> listings_, deletions_;
  uint32_t sequence_ = 1;
};

}  // namespace svcmap::nft
