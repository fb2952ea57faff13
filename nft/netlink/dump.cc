#include "nft/netlink/dump.h"

#include <cerrno>

#include "nft/base/status.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr int kMaxAttempts = 100;

}  // namespace

absl::Status DumpOnce(Socket& socket, const nlmsghdr* request,
                      const std::function<bool(const nlmsghdr*)>& on_message) {
  const absl::Status sent =
      socket.Send({reinterpret_cast<const uint8_t*>(request), request->nlmsg_len});
  if (!sent.ok()) return sent;
  bool interrupted = false;
  for (;;) {
    const auto datagram = socket.Receive(kAnswerTimeout);
    if (!datagram.ok()) return datagram.status();
    if (datagram->empty()) return ErrnoStatus(ETIMEDOUT, "wait for a netlink response");
    for (const nlmsghdr* message : Messages(*datagram)) {
      if (message->nlmsg_seq != request->nlmsg_seq) continue;
      interrupted |= (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (message->nlmsg_type == NLMSG_ERROR || message->nlmsg_type == NLMSG_DONE) {
        if (interrupted) return absl::UnavailableError("a change interrupted the dump");
        const int error = ErrorIn(message);
        return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "send netlink request");
      }
      if (!on_message(message)) return absl::CancelledError("the caller ended the dump");
    }
  }
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
