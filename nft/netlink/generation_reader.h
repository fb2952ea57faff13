// Reads nf_tables' generation id without waiting for a commit in progress, because the kernel
// handles NFT_MSG_GETGEN under RCU (Linux 4.12 and later). Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "nft/netlink/session.h"

namespace svcmap::nft {

class GenerationReader {
 public:
  // Opens the socket in the calling thread's network namespace.
  static absl::StatusOr<std::unique_ptr<GenerationReader>> Open() {
    absl::StatusOr<Session> session = Session::Open({});
    if (!session.ok()) return session.status();
    return std::unique_ptr<GenerationReader>(new GenerationReader(*std::move(session)));
  }

  absl::StatusOr<uint32_t> Read() {
    const std::lock_guard lock(mutex_);
    return session_.Generation();
  }

 private:
  explicit GenerationReader(Session session) : session_(std::move(session)) {}

  std::mutex mutex_;
  Session session_;
};

}  // namespace svcmap::nft
