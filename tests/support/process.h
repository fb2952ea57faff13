// Runs programs, if wanted inside a NetNs. Every child dies with the test process, even when that
// is killed.
//
// Output goes to memory files, not pipes: a child never blocks on a test that does not read, and
// what it wrote stays readable after its death. A ChildProcess may be used from several threads.
#ifndef SVCMAP_TESTS_SUPPORT_PROCESS_H_
#define SVCMAP_TESTS_SUPPORT_PROCESS_H_

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

namespace svcmap::testing {

struct Command {
  std::vector<std::string> argv = {};  // argv[0] is looked up in PATH.
  const NetNs* netns = nullptr;        // Null: the namespace of the test itself.
  std::vector<std::string> env =
      {};  // "KEY=VALUE"; goes before our own environment, which the child has too.
  std::string stdin_text = {};  // All the child finds on its standard input.
};

struct ExitStatus {
  int code = 0;    // Of exit(); meaningless if a signal ended it.
  int signal = 0;  // 0 if it ended by itself.
  bool ok() const { return code == 0 && signal == 0; }
  std::string ToString() const;
};

class ChildProcess {
 public:
  // Returns once the program runs (exec succeeded). NotFound and the like if it could not be
  // started.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(Command command);

  // Kills (SIGKILL, by pidfd) and reaps the child if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // NotFound if the child has ended.
  absl::Status Signal(int signal);

  // Nothing if the child still runs after `timeout`. May be called again.
  std::optional<ExitStatus> Wait(std::chrono::milliseconds timeout);

  // All that was written so far.
  std::string out() const;
  std::string err() const;

  // True as soon as `text` stands in out() or err(); false at `timeout` or when the child ended
  // without it.
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
  std::optional<absl::Status> started_;  // Guarded by mutex_.
  std::optional<ExitStatus> exit_;       // Guarded by mutex_.

  // Forks, then waits for the child. PR_SET_PDEATHSIG fires at the end of the forking *thread*, so
  // that thread must live as long as the child.
  std::thread reaper_;
};

struct CommandResult {
  ExitStatus exit;
  std::string out;
  std::string err;
};

// Runs to the end. DeadlineExceeded (and the child killed) if that takes longer than `timeout`. A
// failing program is not an error here: look at `exit`.
absl::StatusOr<CommandResult> RunCommand(
    Command command, std::chrono::milliseconds timeout = std::chrono::seconds(20));

// As RunCommand, but any exit other than 0 is an error that quotes standard error. Returns standard
// output.
absl::StatusOr<std::string> RunOk(Command command,
                                  std::chrono::milliseconds timeout = std::chrono::seconds(20));

// `nft -f -` with `script`, inside `netns`.
absl::Status RunNft(const NetNs& netns, const std::string& script);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_PROCESS_H_
