#include "api/migration/program.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/convert/quote.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

constexpr std::chrono::seconds kLimit{60};

// Creates a file in memory. Unlike a pipe, a file never blocks the writer or the reader.
absl::StatusOr<UniqueFd> MemoryFile(std::string_view content) {
  UniqueFd fd(memfd_create("svcmap", MFD_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "memfd_create");
  while (!content.empty()) {
    const ssize_t written = write(fd.get(), content.data(), content.size());
    if (written < 0) return ErrnoStatus(errno, "write to a memory file");
    content.remove_prefix(static_cast<size_t>(written));
  }
  lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::string ContentOf(const UniqueFd& fd) {
  std::string content;
  char buffer[65536];
  for (off_t at = 0;;) {
    const ssize_t size = pread(fd.get(), buffer, sizeof(buffer), at);
    if (size <= 0) return content;
    content.append(buffer, static_cast<size_t>(size));
    at += size;
  }
}

// Waits until the process exits. Returns false after kLimit or if `stop` is requested.
bool AwaitProgram(pid_t pid, const std::stop_token& stop) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const UniqueFd stopped(eventfd(0, EFD_CLOEXEC));
  if (!process.ok() || !stopped.ok()) return false;
  const std::stop_callback notify(stop, [&stopped] { eventfd_write(stopped.get(), 1); });
  std::array<pollfd, 2> fds = {{{.fd = process.get(), .events = POLLIN, .revents = 0},
                                {.fd = stopped.get(), .events = POLLIN, .revents = 0}}};
  const int limit = static_cast<int>(std::chrono::milliseconds(kLimit).count());
  return TEMP_FAILURE_RETRY(poll(fds.data(), fds.size(), limit)) > 0 && fds[0].revents != 0;
}

// Returns the last line that is not empty.
std::string LastLine(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const size_t start = text.find_last_of('\n', end);
  return text.substr(start + 1, end - start);
}

// Starts a program with the given standard streams. All signals are unblocked, and SIGPIPE has its
// default action.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& argv, int in, int out, int err) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, pipe;
  sigemptyset(&none);
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &pipe);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& word : argv) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, argv[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("run ", argv[0]));
  return pid;
}

std::optional<std::string> FindSvcmapd() {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string program = own.parent_path() / "svcmapd";
  if (!error && std::filesystem::exists(program, error)) return program;
  return FindProgram("svcmapd");
}

}  // namespace

std::optional<std::string> FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::string folders =
      absl::StrCat(path == nullptr ? "" : path, ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin");
  for (const auto& folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(folder, "/", name);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> RunProgram(const std::vector<std::string>& argv, std::string_view input,
                                       const std::stop_token& stop) {
  const absl::StatusOr<UniqueFd> in = MemoryFile(input);
  if (!in.ok()) return in.status();
  const absl::StatusOr<UniqueFd> out = MemoryFile("");
  if (!out.ok()) return out.status();
  const absl::StatusOr<UniqueFd> err = MemoryFile("");
  if (!err.ok()) return err.status();
  const absl::StatusOr<pid_t> pid = Spawn(argv, in->get(), out->get(), err->get());
  if (!pid.ok()) return pid.status();

  const bool ended = AwaitProgram(*pid, stop);
  if (!ended) kill(*pid, SIGKILL);
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(*pid, &status, 0));
  if (!ended) {
    return stop.stop_requested()
               ? absl::CancelledError(absl::StrCat(argv[0], " killed because of shutdown"))
               : absl::DeadlineExceededError(
                     absl::StrCat(argv[0], " killed after ", kLimit.count(), " s"));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string reported = LastLine(ContentOf(*err));
    return absl::InternalError(
        absl::StrCat(argv[0],
                     WIFEXITED(status) ? absl::StrCat(" exited with status ", WEXITSTATUS(status))
                                       : absl::StrCat(" terminated by signal ", WTERMSIG(status)),
                     reported.empty() ? "" : ": ", Escape(reported)));
  }
  return ContentOf(*out);
}

absl::StatusOr<std::string> RunPreflight() {
  const std::optional<std::string> svcmapd = FindSvcmapd();
  if (!svcmapd) {
    return absl::NotFoundError("svcmapd not found in the directory of svcmapctl or in PATH");
  }
  return RunProgram({*svcmapd, "--preflight"});
}

}  // namespace svcmap::api
