#include "tests/bench/opponents/tool_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nft/base/unique_fd.h"
#include "tests/bench/process_figures.h"

namespace svcmap::bench {
namespace {

using ToolClock = std::chrono::steady_clock;

// Maximum number of bytes from a tool's standard error output in an error message, enough for a few
// lines.
constexpr size_t kQuotedErrors = 600;

absl::Status WriteAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count =
        ::pwrite(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count < 0) return absl::ErrnoToStatus(errno, "write standard input of a program");
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

// Results that the child reports through shared memory before exec. The members are atomic, because
// g++ keeps volatile members of a local variable in registers.
struct Launched {
  std::atomic<bool> traced = false;
  std::atomic<int> error = 0;
};

// Executes the tool. Runs in the child between vfork and exec.
[[noreturn]] void ExecTool(char* const* argv, int in, int out, int err, pid_t parent,
                           Launched& launched) {
  MoveToProxyCpu();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent && ::dup2(in, 0) == 0 &&
      ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2) {
    launched.traced = ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0;
    ::execvp(argv[0], argv);
  }
  launched.error = errno;
  ::_exit(127);
}

// Kills a process after a time limit, unless the caller has reaped the process before.
class Deadline {
 public:
  Deadline(pid_t pid, std::chrono::seconds limit)
      : thread_([this, pid, limit] {
          std::unique_lock lock(mutex_);
          // While this thread holds the lock, the process cannot be reaped, so its pid cannot be
          // reused before the kill.
          if (changed_.wait_for(lock, limit, [this] { return reaped_; })) return;
          passed_ = true;
          ::kill(pid, SIGKILL);
        }) {}
  ~Deadline() { thread_.join(); }

  // Reaps the process. Returns true if the time limit expired first.
  bool Reap(pid_t pid, int& status, rusage& usage) {
    siginfo_t info = {};
    while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
    std::lock_guard lock(mutex_);
    ::wait4(pid, &status, 0, &usage);
    reaped_ = true;
    changed_.notify_all();
    return passed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reaped_ = false;
  bool passed_ = false;
  std::thread thread_;
};

// Waits until a traced process stops, and returns the ptrace(2) event. Returns nullopt if the
// process exited.
std::optional<int> NextStop(pid_t pid) {
  for (;;) {
    siginfo_t info = {};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WSTOPPED | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return std::nullopt;
    }
    if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) return std::nullopt;
    // Consume the stop event. If the process exits before this waitid call, Deadline handles the
    // exit.
    info = {};
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG);
    if (info.si_pid != 0) return info.si_status;
  }
}

// Lets a traced process run from the stop at exec until its exit.
void LetGo(pid_t pid) {
  if (!NextStop(pid)) return;
  ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACEEXIT);
  ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
}

// Returns the peak memory of a traced process. Reads the value when the process is about to exit,
// while its memory still exists. The child's rusage is not usable, because ru_maxrss starts with
// the parent's memory at the fork. Returns a negative value if the process ends without an exit
// event.
int64_t PeakAtExit(pid_t pid) {
  while (const std::optional<int> stop = NextStop(pid)) {
    if (*stop == (SIGTRAP | (PTRACE_EVENT_EXIT << 8))) {
      const int64_t peak = MemoryOf(pid).peak_kib;
      ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
      return peak;
    }
    // Deliver a pending signal such as SIGCHLD to the process.
    ::ptrace(PTRACE_CONT, pid, nullptr, *stop);
  }
  return -1;
}

std::string FirstLines(int fd) {
  std::string text(kQuotedErrors, '\0');
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return text;
}

// Runs the tool. Must be called in a thread that is already in the network namespace.
absl::StatusOr<ToolRun> Run(const std::vector<std::string>& argv, int in,
                            std::chrono::seconds limit) {
  const std::string line = absl::StrJoin(argv, " ");
  const UniqueFd out(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const UniqueFd err(::memfd_create("stderr", MFD_CLOEXEC));
  if (!out.ok() || !err.ok()) return absl::ErrnoToStatus(errno, "output of " + line);
  std::vector<char*> pointers;
  for (const std::string& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);

  ToolRun run;
  Launched launched;
  const pid_t parent = ::getpid();
  const ToolClock::time_point start = ToolClock::now();
  // Use vfork, because fork would copy this process's page tables, which are large for a large
  // cluster.
  const pid_t pid = ::vfork();
  if (pid == 0) ExecTool(pointers.data(), in, out.get(), err.get(), parent, launched);
  if (pid < 0) return absl::ErrnoToStatus(errno, "start " + line);
  if (launched.traced) LetGo(pid);
  int status = 0;
  rusage usage = {};
  bool killed = false;
  {
    Deadline deadline(pid, limit);
    if (launched.traced) run.peak_rss_kib = PeakAtExit(pid);
    killed = deadline.Reap(pid, status, usage);
  }
  run.seconds = std::chrono::duration<double>(ToolClock::now() - start).count();
  if (launched.error != 0) return absl::ErrnoToStatus(launched.error, "start " + line);
  // Also check the duration, because the process may finish before Deadline kills it.
  if (killed || run.seconds > static_cast<double>(limit.count())) {
    return absl::DeadlineExceededError(
        absl::StrCat("'", line, "' takes longer than ", limit.count(), " s"));
  }
  if (status != 0) {
    return absl::UnknownError(absl::StrCat("'", line, "': ",
                                           WIFSIGNALED(status)
                                               ? absl::StrCat("signal ", WTERMSIG(status))
                                               : absl::StrCat("exit ", WEXITSTATUS(status)),
                                           ": ", FirstLines(err.get())));
  }
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  run.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  return run;
}

}  // namespace

absl::StatusOr<ToolRun> RunTool(const std::vector<std::string>& argv, const std::string& stdin_text,
                                const testing::NetNs& netns, std::chrono::seconds limit) {
  const UniqueFd in(::memfd_create("stdin", MFD_CLOEXEC));
  if (!in.ok()) return absl::ErrnoToStatus(errno, "memory file for standard input");
  if (absl::Status status = WriteAll(in.get(), stdin_text); !status.ok()) return status;
  return netns.Run([&] { return Run(argv, in.get(), limit); });
}

}  // namespace svcmap::bench
