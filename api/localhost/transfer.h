// Copies the data of one direction of a TCP connection from one socket to another socket with
// splice(2), through a pipe. The data stays in the kernel. The source is read only when the pipe is
// empty, so a slow receiver slows down the sender. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class Transfer {
 public:
  enum class Result : uint8_t {
    kWaiting,  // The source has no data, or the target accepts no data.
    kMore,     // Stopped after kTransfersInARow transfers. Call Move again.
    kDone,     // The source has closed its direction, and the target has all data.
    kFailed,   // A socket has failed. The connection must be reset.
  };

  absl::Status Open();  // Creates the pipe.

  // Copies data until a socket would block. Forwards the end of the data as a half-close.
  Result Move(int source, int target);

 private:
  UniqueFd read_end_;
  UniqueFd write_end_;
  size_t held_ = 0;  // Number of bytes in the pipe.
  bool ended_ = false;
};

}  // namespace svcmap::api
