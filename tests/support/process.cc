#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace svcmap::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the environment of the child process. The command's variables come first, because
// getenv() returns the first match.
std::vector<char*> Environment(const std::vector<std::string>& added) {
  std::vector<char*> pointers = Pointers(added);
  pointers.pop_back();
  for (char** entry = environ; *entry != nullptr; ++entry) pointers.push_back(*entry);
  pointers.push_back(nullptr);
  return pointers;
}

UniqueFd MemoryFile(const char* name) { return UniqueFd(::memfd_create(name, MFD_CLOEXEC)); }

std::string Contents(int fd) {
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t count = ::pread(fd, buffer, sizeof(buffer), static_cast<off_t>(text.size()));
    if (count <= 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

// Executes the command in the forked child. Only async-signal-safe calls are permitted, because
// other threads of the test may have held locks during the fork.
struct Launch {
  int in, out, err, report;
  int netns;  // Descriptor of the namespace. -1 keeps the namespace of the test.
  pid_t parent;
  char** argv;
  char** env;

  [[noreturn]] void Exec() const {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const bool ready = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                       (netns < 0 || ::setns(netns, CLONE_NEWNET) == 0) && ::dup2(in, 0) == 0 &&
                       ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2;
    if (::getppid() != parent) ::_exit(127);  // The test process exited before the call of prctl.
    if (ready) ::execvpe(argv[0], argv, env);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(report, &error, sizeof(error));
    ::_exit(127);
  }
};

}  // namespace

std::string ExitStatus::ToString() const {
  return signal != 0 ? absl::StrCat("signal ", signal) : absl::StrCat("exit ", code);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(Command command) {
  if (command.argv.empty()) return absl::InvalidArgumentError("empty argv");
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  child->out_ = MemoryFile("stdout");
  child->err_ = MemoryFile("stderr");
  if (!child->out_.ok() || !child->err_.ok()) return absl::ErrnoToStatus(errno, "memfd_create");
  ChildProcess* raw = child.get();
  child->reaper_ = std::thread([raw, &command] { raw->ForkAndReap(command); });
  std::unique_lock lock(raw->mutex_);
  raw->changed_.wait(lock, [raw] { return raw->started_.has_value(); });
  const absl::Status started = *raw->started_;
  lock.unlock();
  if (!started.ok()) return started;
  return child;
}

void ChildProcess::ForkAndReap(const Command& command) {
  const absl::Status started = Fork(command);
  {
    std::lock_guard lock(mutex_);
    // Start() returns and destroys `command` after this notification.
    started_ = started;
    changed_.notify_all();
  }
  if (pid_ < 0) return;
  siginfo_t info = {};
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0 &&
         errno == EINTR) {
  }
  ExitStatus exit;
  (info.si_code == CLD_EXITED ? exit.code : exit.signal) = info.si_status;
  std::lock_guard lock(mutex_);
  exit_ = exit;
  changed_.notify_all();
}

absl::Status ChildProcess::Fork(const Command& command) {
  std::vector<char*> argv = Pointers(command.argv);
  std::vector<char*> env = Environment(command.env);
  UniqueFd in = MemoryFile("stdin");
  const ssize_t size = static_cast<ssize_t>(command.stdin_text.size());
  if (!in.ok() ||
      ::pwrite(in.get(), command.stdin_text.data(), command.stdin_text.size(), 0) != size) {
    return absl::ErrnoToStatus(errno, "memory file for stdin");
  }
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe2");
  UniqueFd report_read(report[0]);
  UniqueFd report_write(report[1]);

  const Launch launch = {in.get(),
                         out_.get(),
                         err_.get(),
                         report_write.get(),
                         command.netns == nullptr ? -1 : command.netns->fd(),
                         ::getpid(),
                         argv.data(),
                         env.data()};
  pid_ = ::fork();
  if (pid_ == 0) launch.Exec();
  if (pid_ < 0) return absl::ErrnoToStatus(errno, "fork");
  pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  report_write.Close();
  int error = 0;
  if (::read(report_read.get(), &error, sizeof(error)) == sizeof(error)) {
    return absl::ErrnoToStatus(error, absl::StrCat("start ", command.argv[0]));
  }
  return absl::OkStatus();
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) Signal(SIGKILL).IgnoreError();
  if (reaper_.joinable()) reaper_.join();
}

absl::Status ChildProcess::Signal(int signal) {
  siginfo_t info = {};
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) == 0 &&
      (signal != SIGSTOP || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED) == 0)) {
    return absl::OkStatus();
  }
  if (errno == ESRCH || errno == ECHILD)
    return absl::NotFoundError(absl::StrCat("process ", pid_, " has ended"));
  return absl::ErrnoToStatus(errno, absl::StrCat("signal ", signal, " to process ", pid_));
}

std::optional<ExitStatus> ChildProcess::Wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return exit_.has_value(); });
  return exit_;
}

std::string ChildProcess::out() const { return Contents(out_.get()); }
std::string ChildProcess::err() const { return Contents(err_.get()); }

bool ChildProcess::WaitForOutput(const std::string& text, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  for (;;) {
    // Check for the exit before reading the output, so that the last output of an exiting child is
    // not missed.
    const bool last = Wait(std::chrono::milliseconds(2)).has_value() || Clock::now() >= deadline;
    if (out().find(text) != std::string::npos || err().find(text) != std::string::npos) return true;
    if (last) return false;
  }
}

absl::StatusOr<CommandResult> RunCommand(Command command, std::chrono::milliseconds timeout) {
  const std::string line = absl::StrJoin(command.argv, " ");
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(std::move(command));
  if (!child.ok()) return child.status();
  const std::optional<ExitStatus> exit = (*child)->Wait(timeout);
  if (!exit.has_value()) {
    return absl::DeadlineExceededError(
        absl::StrCat("'", line, "' ran longer than ", timeout.count(), " ms: ", (*child)->err()));
  }
  return CommandResult{*exit, (*child)->out(), (*child)->err()};
}

absl::StatusOr<std::string> RunOk(Command command, std::chrono::milliseconds timeout) {
  const std::string line = absl::StrJoin(command.argv, " ");
  absl::StatusOr<CommandResult> result = RunCommand(std::move(command), timeout);
  if (!result.ok()) return result.status();
  if (!result->exit.ok()) {
    return absl::UnknownError(
        absl::StrCat("'", line, "': ", result->exit.ToString(), ": ", result->err, result->out));
  }
  return std::move(result->out);
}

}  // namespace svcmap::testing
