#include "nft/netlink/dump.h"

#include <linux/netfilter/nfnetlink.h>

#include <cerrno>

#include "nft/base/status.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr int kMaxAttempts = 100;

}  // namespace

absl::Status ReadAnswers(const nlmsghdr* request,
                         const std::function<absl::StatusOr<std::span<const uint8_t>>()>& receive,
                         const std::function<bool(const nlmsghdr*)>& on_message) {
  const bool single = (request->nlmsg_flags & (NLM_F_ACK | NLM_F_DUMP)) == 0;
  const bool nf_tables = request->nlmsg_type >> 8 == NFNL_SUBSYS_NFTABLES;
  bool interrupted = false;
  for (;;) {
    const absl::StatusOr<std::span<const uint8_t>> datagram = receive();
    if (!datagram.ok()) return datagram.status();
    if (datagram->empty()) return ErrnoStatus(ETIMEDOUT, "wait for a netlink response");
    for (const nlmsghdr* message : Messages(*datagram)) {
      if (message->nlmsg_seq != request->nlmsg_seq) continue;
      interrupted |= (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (message->nlmsg_type == NLMSG_ERROR) {
        return ReadAnswer(message).ToStatus("send netlink request");
      }
      if (message->nlmsg_type == NLMSG_DONE) {
        const int error = ErrorIn(message);
        // If a table is created again during a dump of nf_tables, the dump ends early and without
        // NLM_F_DUMP_INTR.
        if (interrupted || (nf_tables && error == ENOENT)) {
          return absl::UnavailableError("a change interrupted the dump");
        }
        return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "read a netlink dump");
      }
      if (!on_message(message)) return absl::CancelledError("the caller ended the dump");
      if (single) return absl::OkStatus();
    }
  }
}

absl::Status DumpOnce(Socket& socket, const nlmsghdr* request,
                      const std::function<bool(const nlmsghdr*)>& on_message) {
  const absl::Status sent =
      socket.Send({reinterpret_cast<const uint8_t*>(request), request->nlmsg_len});
  if (!sent.ok()) return sent;
  return ReadAnswers(
      request, [&] { return socket.Receive(kAnswerTimeout); }, on_message);
}

absl::Status Dump(Socket& socket, nlmsghdr* request,
                  const std::function<bool(const nlmsghdr*)>& on_message,
                  const std::function<void()>& on_restart) {
  absl::Status status;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    status = DumpOnce(socket, request, on_message);
    if (!absl::IsUnavailable(status)) return status;
    ++request->nlmsg_seq;
    on_restart();
  }
  return status;
}

}  // namespace svcmap::nft
