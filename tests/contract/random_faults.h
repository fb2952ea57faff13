// Injects random faults, determined by a seed, into a share of all calls: sockets cannot be opened,
// options are rejected, sends fail, and responses are lost, late or duplicated.
//
// Faults neither drop nor duplicate single messages of a dump. The kernel generates the messages of
// a dump when the socket is read, so a message cannot be lost without an error.
#pragma once

#include <libmnl/libmnl.h>

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
    switch (random_() % (listing ? 2 : 5)) {
      case 0:
        return {.error = ENOBUFS};
      case 1:
        return {.error = EINTR};
      case 2:
        return {.drop = true};
      case 3:
        return {.late = true};
      default:
        return {.twice = true};
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
