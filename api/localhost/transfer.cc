#include "api/localhost/transfer.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

#include "api/localhost/limits.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr unsigned kSpliceFlags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;

Transfer::Result ResultOfErrno() {
  if (errno == EINTR) return Transfer::Result::kMore;
  return errno == EAGAIN ? Transfer::Result::kWaiting : Transfer::Result::kFailed;
}

}  // namespace

absl::Status Transfer::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return ErrnoStatus(errno, "create a pipe");
  read_end_ = UniqueFd(ends[0]);
  write_end_ = UniqueFd(ends[1]);
  return absl::OkStatus();
}

Transfer::Result Transfer::Move(int source, int target) {
  if (ended_) return Result::kDone;
  for (int i = 0; i < kTransfersInARow; ++i) {
    if (held_ == 0) {
      const ssize_t read =
          splice(source, nullptr, write_end_.get(), nullptr, kPipeBytes, kSpliceFlags);
      if (read < 0) return ResultOfErrno();
      if (read == 0) {
        ended_ = true;
        return shutdown(target, SHUT_WR) == 0 ? Result::kDone : Result::kFailed;
      }
      held_ = static_cast<size_t>(read);
    }
    const ssize_t written = splice(read_end_.get(), nullptr, target, nullptr, held_, kSpliceFlags);
    if (written < 0) return ResultOfErrno();
    held_ -= static_cast<size_t>(written);
  }
  return Result::kMore;
}

}  // namespace svcmap::api
