#include "nft/netlink/session.h"

#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/dump.h"

namespace svcmap::nft {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxGenerationAttempts = 3;
constexpr milliseconds kMaxDumpTime{10000};
constexpr milliseconds kMaxDumpPause{20};

// Returns true if the dump was interrupted or responses were lost. A timeout is not a transient
// error.
bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

}  // namespace

absl::StatusOr<Session> Session::Open(SessionOptions options) {
  absl::StatusOr<NetworkNamespace> netns = NetworkNamespace::OfThisThread();
  if (!netns.ok()) return netns.status();
  Session session(std::move(options), *std::move(netns));
  if (absl::Status status = session.EnsureSocket(); !status.ok()) return status;
  return session;
}

absl::Status Session::EnsureSocket() {
  if (socket_ && !stale_) return absl::OkStatus();
  absl::StatusOr<Socket> socket = netns_.OpenSocket(NETLINK_NETFILTER, options_.faults);
  if (!socket.ok()) return socket.status();
  socket_ = *std::move(socket);
  stale_ = false;
  if (options_.on_port) options_.on_port(socket_->port_id());
  return absl::OkStatus();
}

nlmsghdr* Session::Prepare(uint8_t* buffer, uint16_t type, uint8_t family, uint16_t flags) {
  return nftnl_nlmsg_build_hdr(reinterpret_cast<char*>(buffer), type, family, flags, sequence_++);
}

absl::Status Session::Send(std::span<const uint8_t> bytes) {
  if (absl::Status status = EnsureSocket(); !status.ok()) return status;
  if (absl::Status status = socket_->EnsureSendBuffer(bytes.size()); !status.ok()) return status;
  return socket_->Send(bytes);
}

absl::StatusOr<std::span<const uint8_t>> Session::Receive() {
  absl::StatusOr<std::span<const uint8_t>> datagram = socket_->Receive(options_.answer_timeout);
  if (datagram.ok() && !datagram->empty()) return datagram;
  Renew();
  if (!datagram.ok()) return datagram;
  return ErrnoStatus(ETIMEDOUT, "wait for a response from nf_tables");
}

absl::StatusOr<std::span<const uint8_t>> Session::Poll() {
  absl::StatusOr<std::span<const uint8_t>> datagram =
      socket_->Receive(std::chrono::milliseconds(0));
  if (!datagram.ok()) Renew();
  return datagram;
}

absl::Status Session::Ask(const nlmsghdr* request,
                          const std::function<void(const nlmsghdr*)>& on_message) {
  const absl::Status sent = Send({reinterpret_cast<const uint8_t*>(request), request->nlmsg_len});
  if (!sent.ok()) return sent;
  return ReadAnswers(
      request, [this] { return Receive(); },
      [&](const nlmsghdr* message) {
        on_message(message);
        return true;
      });
}

// Sends an empty batch, which changes nothing. The kernel processes the batch after any commit in
// progress and before send returns.
absl::StatusOr<uint32_t> Session::SettledGeneration() {
  alignas(nlmsghdr) char buffer[128];
  const nlmsghdr* begin = nftnl_batch_begin(buffer, sequence_++);
  const nlmsghdr* end = nftnl_batch_end(buffer + begin->nlmsg_len, sequence_++);
  const absl::Status sent =
      Send({reinterpret_cast<const uint8_t*>(buffer), size_t{begin->nlmsg_len} + end->nlmsg_len});
  if (!sent.ok()) return sent;
  return Generation();
}

absl::StatusOr<uint32_t> Session::Generation() {
  absl::StatusOr<std::optional<uint32_t>> generation;
  for (int attempt = 0; attempt < kMaxGenerationAttempts; ++attempt) {
    generation = RequestGeneration();
    // Retries after kResourceExhausted, which means that the response was lost.
    if (!absl::IsResourceExhausted(generation.status())) break;
  }
  if (!generation.ok()) return Annotate(generation.status(), "read the generation id");
  if (!*generation) return absl::InternalError("nf_tables returned no generation id");
  return **generation;
}

absl::StatusOr<std::optional<uint32_t>> Session::RequestGeneration() {
  alignas(nlmsghdr) uint8_t buffer[128];
  const nlmsghdr* request = Prepare(buffer, NFT_MSG_GETGEN, NFPROTO_UNSPEC, 0);
  std::optional<uint32_t> generation;
  const absl::Status status = Ask(request, [&](const nlmsghdr* message) {
    generation = ReadNumber(AttributeTable(message, sizeof(nfgenmsg))[NFTA_GEN_ID]);
  });
  if (!status.ok()) return status;
  return generation;
}

absl::Status Session::AsOfOneGeneration(const std::function<absl::Status()>& read) {
  const auto once = [&]() -> absl::Status {
    const absl::StatusOr<uint32_t> before = SettledGeneration();
    if (!before.ok()) return before.status();
    if (absl::Status status = read(); !status.ok()) return status;
    const absl::StatusOr<uint32_t> after = SettledGeneration();
    if (!after.ok()) return after.status();
    return *after == *before ? absl::OkStatus()
                             : absl::UnavailableError("a commit interrupted the dump");
  };
  const auto deadline = std::chrono::steady_clock::now() + kMaxDumpTime;
  absl::Status status;
  for (int attempt = 0; attempt < options_.dump_attempts; ++attempt) {
    status = once();
    if (!IsTransient(status) || std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(std::min(attempt * milliseconds(1), kMaxDumpPause));
  }
  return status;
}

}  // namespace svcmap::nft
