// Simulates systemd's notification socket (sd_notify(3)). While the object exists, the environment
// of this process and of child processes contains the socket's address.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::testing {

class NotifySocket {
 public:
  static absl::StatusOr<std::unique_ptr<NotifySocket>> Create();
  ~NotifySocket();

  // Sets the same environment variables as systemd does for WatchdogSec=.
  static void AskForWatchdog(std::chrono::microseconds limit);

  // Returns the next message, or an empty string if no message arrives within `timeout`.
  std::string ReceiveMessage(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

 private:
  explicit NotifySocket(TemporaryFolder folder) : folder_(std::move(folder)) {}
  TemporaryFolder folder_;
  UniqueFd fd_;
};

}  // namespace svcmap::testing
