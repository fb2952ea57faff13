#include "tests/bench/opponents/library_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

constexpr std::chrono::seconds kLibraryStartTimeout{10};
// Maximum number of bytes of an error in a status.
constexpr size_t kLibraryErrors = 600;

absl::StatusOr<UniqueFd> ListenAt(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return absl::InvalidArgumentError(path);
  std::strcpy(address.sun_path, path.c_str());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.ok() ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket.get(), 1) != 0) {
    return absl::ErrnoToStatus(errno, "listen on " + path);
  }
  return socket;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LibraryProcess>> LibraryProcess::Start(const std::string& program,
                                                                      const testing::NetNs& netns,
                                                                      std::chrono::seconds limit) {
  if (::access(program.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError("\"" + program +
                                         "\" is not executable; `cmake --build --preset bench` "
                                         "creates it, packages do not contain it");
  }
  const absl::StatusOr<testing::TemporaryFolder> folder = testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  const std::string path = folder->path() + "/socket";
  const absl::StatusOr<UniqueFd> listener = ListenAt(path);
  if (!listener.ok()) return listener.status();
  auto process = testing::ChildProcess::Start({.argv = {program, path}, .netns = &netns});
  if (!process.ok()) return process.status();
  pollfd waiting = {.fd = listener->get(), .events = POLLIN, .revents = 0};
  const int timeout = static_cast<int>(std::chrono::milliseconds(kLibraryStartTimeout).count());
  if (::poll(&waiting, 1, timeout) != 1) {
    return absl::UnavailableError(program + " does not connect: " + (*process)->err());
  }
  UniqueFd socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.ok()) return absl::ErrnoToStatus(errno, "accept");
  return std::unique_ptr<LibraryProcess>(
      new LibraryProcess(*std::move(process), std::move(socket), limit));
}

absl::Status LibraryProcess::WaitFor(short events, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting = {.fd = socket_.get(), .events = events, .revents = 0};
    const int ready = left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(left));
    if (ready == 1) return absl::OkStatus();
    if (ready == 0) {
      process_->Signal(SIGKILL).IgnoreError();
      return absl::DeadlineExceededError(
          absl::StrCat("libnftables takes longer than ", limit_.count(), " s"));
    }
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "poll");
  }
}

absl::Status LibraryProcess::Send(const void* data, size_t size, Clock::time_point deadline) {
  const char* at = static_cast<const char*>(data);
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::send(socket_.get(), at + done, size - done, MSG_NOSIGNAL);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EAGAIN) {
      return absl::ErrnoToStatus(errno, "send a transaction: " + process_->err());
    } else if (absl::Status status = WaitFor(POLLOUT, deadline); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status LibraryProcess::Receive(void* data, size_t size, Clock::time_point deadline) {
  char* at = static_cast<char*>(data);
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::recv(socket_.get(), at + done, size - done, 0);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count == 0) {
      return absl::UnavailableError("the process with libnftables exited: " + process_->err());
    } else if (errno != EAGAIN) {
      return absl::ErrnoToStatus(errno, "receive a response");
    } else if (absl::Status status = WaitFor(POLLIN, deadline); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ToolRun> LibraryProcess::Run(const std::string& transaction) {
  const uint64_t size = transaction.size();
  uint64_t header[2] = {};
  std::string error;
  const double cpu = CpuSecondsOf(process_->pid());
  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + limit_;
  absl::Status status = Send(&size, sizeof(size), deadline);
  if (status.ok()) status = Send(transaction.data(), size, deadline);
  if (status.ok()) status = Receive(header, sizeof(header), deadline);
  if (status.ok()) {
    error.resize(header[1]);
    status = Receive(error.data(), error.size(), deadline);
  }
  if (!status.ok()) return status;
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (header[0] != 0) {
    return absl::UnknownError("libnftables: " + error.substr(0, kLibraryErrors));
  }
  return ToolRun{.seconds = seconds.count(),
                 .cpu_seconds = CpuSecondsOf(process_->pid()) - cpu,
                 .peak_rss_kib = Memory().peak_kib};
}

}  // namespace svcmap::bench
