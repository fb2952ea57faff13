// A long-running process that executes nft transactions with libnftables
// (tests/bench/libnftables_main.cc).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/bench/opponents/tool_run.h"
#include "tests/bench/process_figures.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"

namespace svcmap::bench {

class LibraryProcess {
 public:
  // Starts `program` in `netns`. Returns FailedPrecondition if the program does not exist.
  static absl::StatusOr<std::unique_ptr<LibraryProcess>> Start(const std::string& program,
                                                               const testing::NetNs& netns,
                                                               std::chrono::seconds limit);

  // Executes a transaction. For a rejected transaction, returns the first lines of the error. After
  // the time limit, kills the process and returns DeadlineExceeded.
  absl::StatusOr<ToolRun> Run(const std::string& transaction);

  ProcessMemory Memory() const { return MemoryOf(process_->pid()); }

 private:
  using Clock = std::chrono::steady_clock;

  LibraryProcess(std::unique_ptr<testing::ChildProcess> process, UniqueFd socket,
                 std::chrono::seconds limit)
      : process_(std::move(process)), socket_(std::move(socket)), limit_(limit) {}
  // Send and receive exactly `size` bytes.
  absl::Status Send(const void* data, size_t size, Clock::time_point deadline);
  absl::Status Receive(void* data, size_t size, Clock::time_point deadline);
  // Waits until the socket is readable or writable.
  absl::Status WaitFor(short events, Clock::time_point deadline);

  std::unique_ptr<testing::ChildProcess> process_;
  UniqueFd socket_;
  const std::chrono::seconds limit_;
};

}  // namespace svcmap::bench
