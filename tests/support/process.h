// Runs executables, optionally inside a NetNs. Every child process is killed when the test process
// ends, even after SIGKILL.
//
// The child writes its output to memory files instead of pipes. The child never blocks if the test
// does not read the output, and the output stays readable after the child exits. A ChildProcess may
// be used by several threads.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/netns.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

struct Command {
  std::vector<std::string> argv = {};  // The executable argv[0] is searched for in PATH.
  // Network namespace of the child. Null selects the namespace of the test process.
  const NetNs* netns = nullptr;
  // Entries "KEY=VALUE". These entries override inherited variables.
  std::vector<std::string> env = {};
  std::string stdin_text = {};  // The complete standard input of the child.
};

struct ExitStatus {
  int code = 0;    // The exit code. Not meaningful if a signal terminated the child.
  int signal = 0;  // Signal that terminated the child. 0 if the child exited itself.
  bool ok() const { return code == 0 && signal == 0; }
  std::string ToString() const;
};

class ChildProcess {
 public:
  // Starts the command and returns after a successful exec. Returns an error such as NotFound if
  // the executable could not be started.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(Command command);

  // Kills the child with SIGKILL (by pidfd) if it is still running, and reaps it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Sends a signal to the child. Returns NotFound if the child has exited. After SIGSTOP, waits
  // until all threads of the child have stopped.
  absl::Status Signal(int signal);

  // Waits for the child to exit. Returns nullopt if the child is still running after `timeout`. May
  // be called several times.
  std::optional<ExitStatus> Wait(std::chrono::milliseconds timeout);

  // Returns all output that the child has written so far.
  std::string out() const;
  std::string err() const;

  // Returns true as soon as out() or err() contains `text`. Returns false at `timeout`, or if the
  // child exits without writing `text`.
  bool WaitForOutput(const std::string& text, std::chrono::milliseconds timeout);

 private:
  ChildProcess() = default;
  void ForkAndReap(const Command& command);
  absl::Status Fork(const Command& command);

  UniqueFd out_;
  UniqueFd err_;
  UniqueFd pidfd_;
  pid_t pid_ = -1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<absl::Status> started_;  // Result of the start. Guarded by mutex_.
  std::optional<ExitStatus> exit_;       // Exit status of the child. Guarded by mutex_.

  // Forks the child and waits for its exit. PR_SET_PDEATHSIG takes effect when the forking thread
  // ends, so this thread must live as long as the child.
  std::thread reaper_;
};

struct CommandResult {
  ExitStatus exit;
  std::string out;
  std::string err;
};

// Runs a command until it exits. After `timeout`, kills the child and returns DeadlineExceeded. A
// nonzero exit code is not an error of this function. CommandResult::exit contains the code.
absl::StatusOr<CommandResult> RunCommand(Command command,
                                         std::chrono::milliseconds timeout = kHangLimit);

// Runs a command and returns its standard output. A nonzero exit code is an error that quotes
// standard error.
absl::StatusOr<std::string> RunOk(Command command, std::chrono::milliseconds timeout = kHangLimit);

// Loads `script` in `netns`, like `nft -f -`. nft.h describes the two implementations.
absl::Status RunNft(const NetNs& netns, const std::string& script);

}  // namespace svcmap::testing
