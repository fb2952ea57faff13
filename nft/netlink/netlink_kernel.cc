#include "nft/netlink/netlink_kernel.h"

#include <cerrno>

#include "nft/base/status.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr int kMaxCommitAttempts = 5;
constexpr int kMaxLosses = 100;

// Returns true if the batch must be sent again, because another commit came first or the kernel was
// interrupted.
bool IsTransient(int error) { return error == ERESTART || error == EAGAIN || error == EINTR; }

// Summary of the responses received so far.
struct BatchAnswers {
  bool acknowledged = false;
  bool transient = false;
  std::optional<ApplyResult> rejected;  // The first error in the responses.
};

void ReadAnswers(const Batch& batch, std::span<const uint8_t> datagram, BatchAnswers& answers) {
  for (const nlmsghdr* message : Messages(datagram)) {
    const uint32_t age = message->nlmsg_seq - batch.first_sequence();
    if (message->nlmsg_type != NLMSG_ERROR ||
        age >= batch.next_sequence() - batch.first_sequence()) {
      continue;
    }
    const Answer answer = ReadAnswer(message);
    if (answer.error == 0) {
      answers.acknowledged |= message->nlmsg_seq == batch.last_sequence();
      continue;
    }
    if (answers.rejected) continue;
    answers.transient = IsTransient(answer.error);
    answers.rejected = {ApplyOutcome::kRejected,
                        answer.ToStatus(batch.Describe(message->nlmsg_seq)), std::nullopt};
    if (answer.attribute_offset) {
      answers.rejected->failed_element =
          batch.ElementAt(message->nlmsg_seq, *answer.attribute_offset);
    }
  }
}

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
  for (int attempt = 0; transient && attempt < kMaxCommitAttempts; ++attempt) {
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

// An error for any message means that nothing was committed, even if the last message is
// acknowledged. Errors arrive before the acknowledgement, so AwaitVerdict reads all queued errors
// first. If responses were lost, the remaining responses are already queued, because the kernel has
// processed the complete batch.
ApplyResult NetlinkKernel::AwaitVerdict(const Batch& batch, bool& transient) {
  BatchAnswers answers;
  absl::Status failure;
  int losses = 0;
  for (;;) {
    const bool wait = !answers.acknowledged && !answers.rejected && losses == 0;
    const absl::StatusOr<std::span<const uint8_t>> datagram =
        wait ? session_.Receive() : session_.Poll();
    if (datagram.ok()) {
      if (datagram->empty()) break;
      ReadAnswers(batch, *datagram, answers);
      continue;
    }
    failure = datagram.status();
    if (!absl::IsResourceExhausted(failure) || ++losses == kMaxLosses) break;
  }
  transient = answers.transient;
  if (answers.rejected) return *std::move(answers.rejected);
  if (answers.acknowledged && failure.ok()) return {};
  return {ApplyOutcome::kUnknown, failure, std::nullopt};
}

nlmsghdr* NetlinkKernel::Prepare(uint8_t* buffer, uint16_t type, Family family, uint16_t flags) {
  return session_.Prepare(buffer, type, NfFamily(family), flags);
}

}  // namespace svcmap::nft
