#include "nft/conntrack/netlink_flow_table.h"

#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "nft/base/status.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/dump.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr int kMaxListings = 5;  // Maximum number of attempts to list all flows (S-243).
// The flows of a kind are rare if they are at most 1/16 of all flows.
constexpr uint64_t kRare = 16;
// Number of deletions in one send call. The receive buffer has room for one error message per
// deletion.
constexpr size_t kDeletionsPerSend = 64;

}  // namespace

absl::Status NetlinkFlowTable::OpenIfClosed(std::optional<Socket>& socket) {
  if (socket) return absl::OkStatus();
  absl::StatusOr<Socket> opened = Socket::Open(NETLINK_NETFILTER, faults_);
  if (opened.ok()) socket = *std::move(opened);
  return opened.status();
}

absl::StatusOr<FlowTable::Listing> NetlinkFlowTable::ForEach(
    std::span<const FlowKind> kinds, uint64_t max_entries,
    const std::function<bool(const Flow&)>& on_flow) {
  // Takes the socket, and keeps it only after a complete dump. Otherwise, the socket may contain
  // responses of an unfinished dump.
  std::optional<Socket> socket = std::exchange(listings_, std::nullopt);
  if (const absl::Status opened = OpenIfClosed(socket); !opened.ok()) return opened;
  const absl::StatusOr<uint32_t> count = Count(*socket);
  if (!count.ok()) return Annotate(count.status(), "count the tracked connections");

  Listing listing;
  std::array<uint64_t, kFlowKinds> seen;
  const auto on_message = [&](const nlmsghdr* message) {
    listing.cut = listing.entries >= max_entries;
    if (listing.cut) return false;
    ++listing.entries;
    const std::optional<Flow> flow = ReadFlow(message);
    if (!flow) return true;
    ++seen[Index(flow->kind())];
    return std::count(kinds.begin(), kinds.end(), flow->kind()) == 0 || on_flow(*flow);
  };
  alignas(nlmsghdr) uint8_t buffer[kMaxFlowMessage];
  const auto dump = [&](nlmsghdr* request) {
    request->nlmsg_seq = sequence_++;
    return DumpOnce(*socket, request, on_message);
  };
  for (int attempt = 0; attempt < kMaxListings; ++attempt) {
    seen = {};
    absl::Status status;
    if (FilterInKernel(kinds)) {
      for (const FlowKind& kind : kinds) {
        if (status.ok()) status = dump(WriteFlowDump(buffer, kind));
      }
      if (absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) {
        filter_unsupported_ = true;
        continue;
      }
    } else {
      status = dump(WriteFlowDump(buffer));
    }
    if (status.ok() || listing.cut) {
      flows_ = *count;
      flows_of_kind_ = seen;
      if (status.ok()) listings_ = std::move(socket);
      return listing;
    }
    if (!absl::IsUnavailable(status)) return Annotate(status, "list the tracked connections");
  }
  listing.complete = false;
  return listing;
}

// The kernel disables softirqs while it searches for the next matching flow, so the CPU processes
// no packets during the search. In a table of 500,000 flows without a match, the search takes 87
// ms. Therefore svcmapd uses the kernel's filter only if many flows match. If matching flows are
// rare, svcmapd requests all flows and filters them in user space. Each kind requires a search of
// the complete table, so svcmapd also requests all flows if it needs both protocols.
bool NetlinkFlowTable::FilterInKernel(std::span<const FlowKind> kinds) const {
  return !filter_unsupported_ && std::all_of(kinds.begin(), kinds.end(), [&](const auto& kind) {
    return kind.protocol == kinds[0].protocol && flows_of_kind_[Index(kind)] * kRare > flows_;
  });
}

absl::StatusOr<uint32_t> NetlinkFlowTable::Count(Socket& socket) {
  alignas(nlmsghdr) uint8_t buffer[kMaxFlowMessage];
  nlmsghdr* request = WriteCountRequest(buffer);
  request->nlmsg_seq = sequence_++;
  std::optional<uint32_t> count;
  const absl::Status status = DumpOnce(socket, request, [&](const nlmsghdr* message) {
    if (!count) count = ReadFlowCount(message);
    return true;
  });
  if (!status.ok()) return status;
  if (!count) return absl::InternalError("the kernel returned no count");
  return *count;
}

FlowTable::Deletion NetlinkFlowTable::Delete(std::span<const Flow> flows) {
  Deletion deletion;
  deletion.status = OpenIfClosed(deletions_);
  while (!flows.empty() && deletion.status.ok()) {
    const auto batch = flows.first(std::min(flows.size(), kDeletionsPerSend));
    DeleteBatch(batch, deletion);
    flows = flows.subspan(batch.size());
  }
  // Closes the socket after an error, because a late response could be mistaken for the response to
  // the next request.
  if (!deletion.status.ok()) deletions_.reset();
  return deletion;
}

// The kernel processes each message independently of earlier failures. Only the last message
// requests an acknowledgement. The kernel responds to each earlier message only if the message
// fails.
void NetlinkFlowTable::DeleteBatch(std::span<const Flow> flows, Deletion& deletion) {
  std::vector<uint8_t> bytes;
  alignas(nlmsghdr) uint8_t buffer[kMaxFlowMessage];
  const uint32_t first = sequence_;
  for (const Flow& flow : flows) {
    nlmsghdr* message = WriteFlowDeletion(buffer, flow);
    message->nlmsg_seq = sequence_++;
    if (message->nlmsg_seq == first + flows.size() - 1) message->nlmsg_flags |= NLM_F_ACK;
    bytes.insert(bytes.end(), buffer, buffer + MNL_ALIGN(message->nlmsg_len));
  }
  deletion.status.Update(deletions_->Send(bytes));
  if (!deletion.status.ok()) return;
  size_t failed = 0;
  for (bool done = false; !done;) {
    const auto datagram = deletions_->Receive(kAnswerTimeout);
    if (!datagram.ok() || datagram->empty()) {
      deletion.status =
          datagram.ok() ? ErrnoStatus(ETIMEDOUT, "delete tracked connections") : datagram.status();
      return;
    }
    for (const nlmsghdr* message : Messages(*datagram)) {
      if (message->nlmsg_type != NLMSG_ERROR || message->nlmsg_seq - first >= flows.size() ||
          mnl_nlmsg_get_payload_len(message) < sizeof(nlmsgerr)) {
        continue;
      }
      const int error = ErrorIn(message);
      if (error != 0) ++failed;
      if (error == ENOENT) ++deletion.gone;
      if (error != 0 && error != ENOENT) {
        deletion.status.Update(ErrnoStatus(error, "delete a tracked connection"));
      }
      done |= message->nlmsg_seq - first == flows.size() - 1;
    }
  }
  deletion.deleted += flows.size() - failed;
}

}  // namespace svcmap::nft
