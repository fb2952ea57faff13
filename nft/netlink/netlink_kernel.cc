#include "nft/netlink/netlink_kernel.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <cstring>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

using std::chrono::milliseconds;

struct KernelError {
  int error = 0;
  std::optional<uint32_t> attribute_offset;
  std::string text;
};

// An NLMSG_ERROR message with its extended acknowledgement (NETLINK_EXT_ACK and NETLINK_CAP_ACK).
KernelError ReadError(const nlmsghdr* message) {
  KernelError result;
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nlmsgerr)) {
    result.error = EBADMSG;
    return result;
  }
  const auto* error = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
  result.error = -error->error;
  if ((message->nlmsg_flags & NLM_F_ACK_TLVS) == 0) return result;
  size_t offset = sizeof(nlmsgerr);
  if ((message->nlmsg_flags & NLM_F_CAPPED) == 0 && error->error != 0) {
    offset += error->msg.nlmsg_len - sizeof(nlmsghdr);
  }
  if (offset > mnl_nlmsg_get_payload_len(message)) return result;
  for (const nlattr* attribute : Attributes(message, offset)) {
    switch (mnl_attr_get_type(attribute)) {
      case NLMSGERR_ATTR_OFFS:
        if (mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)) {
          result.attribute_offset = mnl_attr_get_u32(attribute);
        }
        break;
      case NLMSGERR_ATTR_MSG:
        result.text.assign(
            mnl_attr_get_str(attribute),
            strnlen(mnl_attr_get_str(attribute), mnl_attr_get_payload_len(attribute)));
        break;
      default:
        break;
    }
  }
  return result;
}

// What ended a dump; 0 if it is complete.
int DumpError(const nlmsghdr* done) {
  if (mnl_nlmsg_get_payload_len(done) < sizeof(int)) return 0;
  int error = 0;
  std::memcpy(&error, mnl_nlmsg_get_payload(done), sizeof(error));
  return -error;
}

absl::Status ToStatus(const KernelError& error, std::string what) {
  if (!error.text.empty()) what += " (" + error.text + ")";
  return ErrnoStatus(error.error, what);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NetlinkKernel>> NetlinkKernel::Open(TableSpecs tables) {
  absl::StatusOr<Socket> socket = Socket::Open(NETLINK_NETFILTER);
  if (!socket.ok()) return socket.status();
  return std::unique_ptr<NetlinkKernel>(new NetlinkKernel(std::move(tables), *std::move(socket)));
}

ApplyResult NetlinkKernel::Apply(const Transaction& transaction) {
  if (transaction.empty()) return {};
  Batch batch(tables_, sequence_);
  batch.Append(transaction);
  batch.Finish();
  sequence_ = batch.next_sequence();

  // What cannot be sent never reached the kernel.
  if (const absl::Status room = socket_.EnsureSendBuffer(batch.bytes().size()); !room.ok()) {
    return {ApplyOutcome::kRejected, room, std::nullopt};
  }
  if (const absl::Status sent = socket_.Send(batch.bytes()); !sent.ok()) {
    return {ApplyOutcome::kRejected, sent, std::nullopt};
  }
  return AwaitVerdict(batch);
}

// An error for any message means that nothing was committed, even when the last one is
// acknowledged; errors come first, so everything that is queued is read before the verdict.
ApplyResult NetlinkKernel::AwaitVerdict(const Batch& batch) {
  ApplyResult result{ApplyOutcome::kUnknown, absl::OkStatus(), std::nullopt};
  bool acknowledged = false;
  bool rejected = false;
  for (;;) {
    const absl::StatusOr<std::span<const uint8_t>> datagram =
        socket_.Receive(acknowledged || rejected ? milliseconds(0) : kAnswerTimeout);
    if (!datagram.ok()) {  // Messages were lost; go on with what is still queued.
      result.error = datagram.status();
      if (absl::IsResourceExhausted(datagram.status())) continue;
      break;
    }
    if (datagram->empty()) break;
    for (const nlmsghdr* message : Messages(*datagram)) {
      const uint32_t age = message->nlmsg_seq - batch.first_sequence();
      if (message->nlmsg_type != NLMSG_ERROR ||
          age >= batch.next_sequence() - batch.first_sequence()) {
        continue;  // A late answer to an earlier request.
      }
      const KernelError error = ReadError(message);
      if (error.error == 0) {
        acknowledged |= message->nlmsg_seq == batch.last_sequence();
      } else if (!rejected) {
        rejected = true;
        result.error = ToStatus(error, batch.Describe(message->nlmsg_seq));
        if (error.attribute_offset) {
          result.failed_element = batch.ElementAt(message->nlmsg_seq, *error.attribute_offset);
        }
      }
    }
  }
  if (rejected) {
    result.outcome = ApplyOutcome::kRejected;
  } else if (acknowledged) {
    result = {};
  } else if (result.error.ok()) {
    result.error = ErrnoStatus(ETIMEDOUT, "wait for the acknowledgement of a batch");
  }
  return result;
}

absl::Status NetlinkKernel::ErrorStatus(const nlmsghdr* message, const std::string& what) {
  const KernelError error = ReadError(message);
  return error.error == 0 ? absl::OkStatus() : ToStatus(error, what);
}

nlmsghdr* NetlinkKernel::PrepareRequest(uint8_t* buffer, uint16_t type, Family family,
                                        uint16_t flags) {
  nlmsghdr* header = mnl_nlmsg_put_header(buffer);
  header->nlmsg_type = static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type);
  header->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  header->nlmsg_seq = sequence_++;
  auto* extra = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg)));
  extra->nfgen_family = family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
  extra->version = NFNETLINK_V0;
  extra->res_id = 0;
  return header;
}

absl::Status NetlinkKernel::Request(const nlmsghdr* request,
                                    const std::function<void(const nlmsghdr*)>& on_message) {
  const absl::Status sent =
      socket_.Send({reinterpret_cast<const uint8_t*>(request), request->nlmsg_len});
  if (!sent.ok()) return sent;
  bool interrupted = false;
  for (;;) {
    const absl::StatusOr<std::span<const uint8_t>> datagram = socket_.Receive(kAnswerTimeout);
    if (!datagram.ok()) return datagram.status();
    if (datagram->empty()) return ErrnoStatus(ETIMEDOUT, "wait for an answer of nf_tables");
    for (const nlmsghdr* message : Messages(*datagram)) {
      if (message->nlmsg_seq != request->nlmsg_seq) continue;
      interrupted |= (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (message->nlmsg_type == NLMSG_ERROR) {
        return ErrorStatus(message, "ask nf_tables");
      }
      if (message->nlmsg_type == NLMSG_DONE) {
        const int error = DumpError(message);
        // A table that is recreated under a dump ends it early, without the flag.
        if (interrupted || error == ENOENT) {
          return absl::UnavailableError("a commit disturbed the dump");
        }
        return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "dump nf_tables");
      }
      on_message(message);
    }
  }
}

}  // namespace svcmap::nft
