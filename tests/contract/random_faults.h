// Injects random faults, determined by a seed, into a share of all calls: sockets cannot be opened,
// options are rejected, sends fail, and responses are lost, late or duplicated.
//
// Faults neither drop nor duplicate single messages of a dump. The kernel generates the messages of
// a dump when the socket is read, so a message cannot be lost without an error.
#pragma once

#include <libmnl/libmnl.h>
#include <linux/netlink.h>

#include <cerrno>
#include <random>
#include <span>

#include "nft/netlink/socket_faults.h"

namespace svcmap::nft {

class RandomFaults final : public SocketFaults {
 public:
  // Starts the injection of faults. Calls before Start have no faults.
  void Start(uint32_t seed, unsigned percent) {
    random_.seed(seed);
    percent_ = percent;
    failures_ = 0;
  }

  // Returns the number of calls since the last TakeFailures() call that failed before anything was
  // sent.
  int TakeFailures() { return std::exchange(failures_, 0); }

  int count() const { return count_; }  // Returns the total number of injected faults.

  int OnOpen(int) override { return Fail(EMFILE); }
  int OnSetOption(int) override { return Fail(EPERM); }
  int OnSend(uint32_t, std::span<const uint8_t>) override {
    constexpr int kErrors[] = {ENOBUFS, ENOMEM, EINTR};
    return Fail(kErrors[random_() % std::size(kErrors)]);
  }
  Receipt OnReceive(uint32_t, std::span<const uint8_t> datagram) override {
    if (!Chance()) return {};
    const auto* message = reinterpret_cast<const nlmsghdr*>(datagram.data());
    const bool listing = (message->nlmsg_flags & NLM_F_MULTI) != 0;
    // The kernel delivers the answers to a batch in order, and reports each answer that it loses
    // with ENOBUFS (netlink_ack and netlink_overrun in net/netlink/af_netlink.c). A session that
    // misses an error without this report would take the batch's last acknowledgement for a commit.
    const bool error = message->nlmsg_type == NLMSG_ERROR &&
                       reinterpret_cast<const nlmsgerr*>(message + 1)->error != 0;
    switch (random_() % (listing ? 2 : error ? 3 : 5)) {
      case 0:
        return {.error = ENOBUFS};
      case 1:
        return {.error = EINTR};
      case 2:
        return {.twice = true};
      case 3:
        return {.drop = true};
      default:
        return {.late = true};
    }
  }

 private:
  bool Chance() {
    const bool fault = random_() % 100 < percent_;
    if (fault) ++count_;
    return fault;
  }
  int Fail(int error) {
    if (!Chance()) return 0;
    ++failures_;
    return error;
  }

  std::mt19937 random_;
  unsigned percent_ = 0;
  int failures_ = 0;
  int count_ = 0;
};

}  // namespace svcmap::nft
