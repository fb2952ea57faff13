// Checks with connections and streams that send little or nothing.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

using HalfOpenClock = std::chrono::steady_clock;

constexpr int kSilent = 40;       // Number of connections that send nothing.
constexpr int kHalfPreface = 40;  // Number of connections that send a part of the HTTP/2 preface.
constexpr int kWithoutCall = 20;  // Number of HTTP/2 connections without calls.
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::chrono::seconds kGreetWithin{10};
constexpr std::chrono::seconds kOpenWithin{10};
constexpr std::chrono::seconds kSlack{5};

// Waits until the agent has closed all `fds`. Returns the number of connections that are still open
// at `deadline`.
size_t OpenAt(std::vector<pollfd> fds, HalfOpenClock::time_point deadline) {
  char bytes[4096];
  while (!fds.empty() && HalfOpenClock::now() < deadline) {
    poll(fds.data(), fds.size(), 100);
    // Reads and ignores the HTTP/2 settings, which the agent sends first.
    std::erase_if(fds, [&](const pollfd& fd) {
      return fd.revents != 0 && recv(fd.fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0;
    });
  }
  return fds.size();
}

}  // namespace

void CheckHalfOpenConnections(const Target& target, Verdict& verdict) {
  const auto started = HalfOpenClock::now();
  std::vector<pollfd> fds;
  for (int i = 0; i < kSilent + kHalfPreface; ++i) {
    fds.push_back({.fd = target.ConnectSocket(), .events = POLLIN});
    const size_t reported = i < kSilent ? 0 : kPreface.size() / 2;
    (void)!send(fds.back().fd, kPreface.data(), reported, MSG_NOSIGNAL);
    verdict.That(fds.back().fd >= 0, "a connection", "none");
  }
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < kWithoutCall; ++i) {
    channels.push_back(target.Connect());
    verdict.That(channels.back()->WaitForConnected(std::chrono::system_clock::now() + kPatience),
                 "a connection over HTTP/2", "none");
  }
  ExpectAlive(target, "with 100 connections without calls", verdict);
  if (!target.options().is_unix()) {
    const size_t open = OpenAt(fds, started + kGreetWithin + kSlack);
    verdict.That(open == 0, "connections without HTTP/2 to be closed after 10 s",
                 std::to_string(open) + " open connections after 15 s");
    verdict.Note(std::to_string(fds.size()) + " connections closed within " +
                 std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(
                                    HalfOpenClock::now() - started)
                                    .count()) +
                 " ms");
  }
  ExpectAlive(target, "after the test", verdict);
  for (const pollfd& fd : fds) close(fd.fd);
}

void CheckSilentStream(const Target& target, Verdict& verdict) {
  // Other checks of this run hold many connections open, so the agent may close the first
  // connections of this check.
  const std::shared_ptr<grpc::Channel> channel = target.Connect();
  verdict.That(channel->WaitForConnected(std::chrono::system_clock::now() + kOpenWithin),
               "a connection within 10 s", "none");
  const auto started = HalfOpenClock::now();
  Session silent(v1::Control::NewStub(channel));
  const grpc::Status status = silent.Finish();
  const auto took = HalfOpenClock::now() - started;
  verdict.Equal("a stream without Open to end with", "DEADLINE_EXCEEDED",
                CodeName(status.error_code()));
  verdict.Contains("the message", "open not received within", status.error_message());
  verdict.That(
      took > kOpenWithin - kSlack && took < kOpenWithin + kSlack, "the stream to end after 10 s",
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(took).count()) + " s");
  verdict.Note("ended after " +
               std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()) +
               " ms");
}

}  // namespace svcmap::protocol
