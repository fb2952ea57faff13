#include "nft/netlink/netlink_kernel.h"

#include <linux/netfilter.h>

#include <cerrno>

#include "nft/base/status.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr int kMaxAttempts = 5;
constexpr int kMaxLosses = 100;

// The kernel asks for the batch again: another commit came first, or it was interrupted.
bool IsTransient(int error) { return error == ERESTART || error == EAGAIN || error == EINTR; }

}  // namespace

absl::StatusOr<std::unique_ptr<NetlinkKernel>> NetlinkKernel::Open(TableSpecs tables,
                                                                   SessionOptions options) {
  absl::StatusOr<Session> session = Session::Open(std::move(options));
  if (!session.ok()) return session.status();
  return std::unique_ptr<NetlinkKernel>(new NetlinkKernel(std::move(tables), *std::move(session)));
}

ApplyResult NetlinkKernel::Apply(const Transaction& transaction) {
  if (transaction.empty()) return {};
  ApplyResult result;
  bool transient = true;
  for (int attempt = 0; transient && attempt < kMaxAttempts; ++attempt) {
    result = ApplyOnce(transaction, transient);
  }
  return result;
}

ApplyResult NetlinkKernel::ApplyOnce(const Transaction& transaction, bool& transient) {
  transient = false;
  Batch batch(tables_, session_.sequence());
  batch.Append(transaction);
  batch.Finish();
  session_.SkipTo(batch.next_sequence());
  if (const absl::Status sent = session_.Send(batch.bytes()); !sent.ok()) {
    return {ApplyOutcome::kRejected, sent, std::nullopt};
  }
  return AwaitVerdict(batch, transient);
}

// An error for any message means that nothing was committed, even when the last one is
// acknowledged; errors come first, so everything that is queued is read before the verdict. When
// answers were lost the rest is queued already: the kernel is done with the batch.
ApplyResult NetlinkKernel::AwaitVerdict(const Batch& batch, bool& transient) {
  ApplyResult result{ApplyOutcome::kUnknown, absl::OkStatus(), std::nullopt};
  bool acknowledged = false;
  bool rejected = false;
  int losses = 0;
  for (;;) {
    const bool wait = !acknowledged && !rejected && losses == 0;
    const absl::StatusOr<std::span<const uint8_t>> datagram =
        wait ? session_.Receive() : session_.Poll();
    if (!datagram.ok()) {
      if (!rejected) result.error = datagram.status();
      if (absl::IsResourceExhausted(datagram.status()) && ++losses < kMaxLosses) continue;
      break;
    }
    if (datagram->empty()) break;
    for (const nlmsghdr* message : Messages(*datagram)) {
      const uint32_t age = message->nlmsg_seq - batch.first_sequence();
      if (message->nlmsg_type != NLMSG_ERROR ||
          age >= batch.next_sequence() - batch.first_sequence()) {
        continue;
      }
      const Answer answer = ReadAnswer(message);
      if (answer.error == 0) {
        acknowledged |= message->nlmsg_seq == batch.last_sequence();
      } else if (!rejected) {
        rejected = true;
        transient = IsTransient(answer.error);
        result.error = answer.ToStatus(batch.Describe(message->nlmsg_seq));
        if (answer.attribute_offset) {
          result.failed_element = batch.ElementAt(message->nlmsg_seq, *answer.attribute_offset);
        }
      }
    }
  }
  if (rejected) {
    result.outcome = ApplyOutcome::kRejected;
  } else if (acknowledged && losses == 0) {
    result = {};
  }
  return result;
}

nlmsghdr* NetlinkKernel::Prepare(uint8_t* buffer, uint16_t type, Family family, uint16_t flags) {
  return session_.Prepare(buffer, type, family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6,
                          flags);
}

}  // namespace svcmap::nft
