// Checks with connections and streams that send little or nothing, that do not read, or that have
// no access.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSilent = 40;       // Number of connections that send nothing.
constexpr int kHalfPreface = 40;  // Number of connections that send a part of the HTTP/2 preface.
constexpr int kWithoutCall = 20;  // Number of HTTP/2 connections without calls.
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::chrono::seconds kGreetWithin{10};
constexpr std::chrono::seconds kOpenWithin{10};
constexpr std::chrono::seconds kSlack{5};

// Waits until the agent has closed all `fds`. Returns the number of connections that are still open
// at `deadline`.
size_t OpenAt(std::vector<pollfd> fds, Clock::time_point deadline) {
  char bytes[4096];
  while (!fds.empty() && Clock::now() < deadline) {
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
  const auto started = Clock::now();
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
    verdict.Note(
        std::to_string(fds.size()) + " connections closed within " +
        std::to_string(
            std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started).count()) +
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
  const auto started = Clock::now();
  Session silent(v1::Control::NewStub(channel));
  const grpc::Status status = silent.Finish();
  const auto took = Clock::now() - started;
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

// Check with a controller that writes without reading responses.

namespace {

// On an idle machine, about 5,000 batches are written before the writes block. On a busy one, it
// was more than 10,000.
constexpr uint64_t kBatches = 40'000;
// Bytes per batch. All batches together exceed the buffers of gRPC and the kernel.
constexpr size_t kBatchBytes = 1000;
constexpr std::chrono::milliseconds kStandsStill{500};
constexpr std::chrono::seconds kPatienceOfOthers{
    2};  // Maximum duration of one call, which normally takes milliseconds.

std::string Milliseconds(Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
         " ms";
}

// Makes calls from another client until the writer has been blocked for kStandsStill. Returns the
// duration of the longest call.
Clock::duration CallUntilItStandsStill(const Target& target, const std::atomic<uint64_t>& sent,
                                       Verdict& verdict) {
  Clock::duration longest{0};
  uint64_t last = 0;
  auto since = Clock::now();
  const auto deadline = since + kPatience / 2;
  for (int i = 0; Clock::now() < deadline && Clock::now() - since < kStandsStill; ++i) {
    const auto started = Clock::now();
    v1::GetStatusResponse status;
    verdict.Equal("GetStatus meanwhile:", "OK", Text(target.GetStatus(&status)));
    const auto asked = Clock::now();
    v1::Ack ack;
    target.Apply(Service("other", 100 + i % 2), &ack);
    verdict.Equal("outcome of Apply meanwhile:", v1::Outcome_Name(v1::COMMITTED),
                  v1::Outcome_Name(ack.outcome()));
    longest = std::max({longest, asked - started, Clock::now() - asked});
    if (sent == last) continue;
    last = sent;
    since = Clock::now();
  }
  return longest;
}

}  // namespace

void CheckFlood(const Target& target, Verdict& verdict) {
  Replace(target, {}, verdict);
  Session session(v1::Control::NewStub(target.Connect()));
  const uint64_t in_flight = session.Open(target).limits().max_batches_in_flight();
  std::atomic<uint64_t> sent = 0;
  std::thread writer([&] {
    for (uint64_t number = 1; number <= kBatches; ++number) {
      const std::string note = std::to_string(number) + std::string(kBatchBytes, '.');
      if (!session.Batch(number, {Put(Service("web", 1 + static_cast<int>(number % 2), note))})) {
        return;
      }
      sent = number;
    }
  });
  const Clock::duration longest = CallUntilItStandsStill(target, sent, verdict);
  const uint64_t before = sent;
  verdict.That(before < kBatches, "writes that block without reading",
               "all " + std::to_string(kBatches) + " batches written");
  verdict.That(longest < kPatienceOfOthers, "each call of other clients to take less than 2 s",
               Milliseconds(longest));
  // Reading the responses unblocks the writer.
  uint64_t acked = 0;
  while (acked < kBatches) {
    const v1::Ack ack = session.Ack();
    verdict.That(ack.number() == acked + 1 &&
                     (ack.outcome() == v1::COMMITTED || ack.outcome() == v1::UNCHANGED),
                 "Ack{" + std::to_string(acked + 1) + ", COMMITTED or UNCHANGED}",
                 ack.ShortDebugString());
    if (!verdict.passed()) break;
    acked = ack.number();
  }
  if (acked < kBatches) session.Cancel();
  writer.join();
  verdict.Note("batches written before blocking: " + std::to_string(before) +
               ", in flight at most " + std::to_string(in_flight) +
               "; longest call of other clients: " + Milliseconds(longest));
}

// Tests that use clients without valid credentials or without the required role. Each client uses a
// separate connection. The authorized client must be able to call the agent before and after each
// check.

namespace {

// Reads a file that contains both a certificate and its key. `pem` is empty if the client has no
// certificate.
std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const Target& target,
                                                        const std::string& pem) {
  return grpc::SslCredentials({target.options().ca, pem, pem});
}

// Status codes of one call of each kind: GetStatus, Apply and Push.
struct Ends {
  grpc::Status status, apply, push;
};

Ends CallAll(const Target& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  Ends ends;
  const auto channel = target.Connect(credentials);
  const auto stub = v1::Control::NewStub(channel);
  {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetStatusResponse response;
    ends.status = stub->GetStatus(&context, {}, &response);
  }
  {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::Ack ack;
    ends.apply = stub->Apply(&context, {}, &ack);
  }
  Session session(v1::Control::NewStub(channel));
  session.Open(target);
  ends.push = session.Finish();
  return ends;
}

void ExpectHungUp(const Target& target, const std::string& who,
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials, Verdict& verdict) {
  ExpectAlive(target, "before", verdict);
  const Ends ends = CallAll(target, credentials);
  for (const grpc::Status& end : {ends.status, ends.apply, ends.push}) {
    verdict.Equal("a call " + who + ":", "UNAVAILABLE", CodeName(end.error_code()));
  }
  ExpectAlive(target, "after", verdict);
}

// Expects PERMISSION_DENIED and a message that contains the method, the client and `role`.
void ExpectDenied(const std::string& method, const std::string& role, const grpc::Status& end,
                  Verdict& verdict) {
  verdict.Equal(method + " to end with", "PERMISSION_DENIED", CodeName(end.error_code()));
  verdict.Contains("the error message", "svcmap.v1.Control/" + method + " denied: client ",
                   end.error_message());
  verdict.Contains("the error message", role, end.error_message());
}

}  // namespace

void CheckWrongClient(const Target& target, Verdict& verdict) {
  ExpectHungUp(target, "with a certificate of an unknown CA",
               CredentialsOf(target, target.options().wrong_client), verdict);
}

void CheckExpiredClient(const Target& target, Verdict& verdict) {
  ExpectHungUp(target, "with a certificate that has expired",
               CredentialsOf(target, target.options().expired_client), verdict);
}

void CheckOutsideClient(const Target& target, Verdict& verdict) {
  const Ends ends = CallAll(target, CredentialsOf(target, target.options().outside_client));
  const std::string role = "is not authorized to read or write";
  ExpectDenied("GetStatus", role, ends.status, verdict);
  ExpectDenied("Apply", role, ends.apply, verdict);
  ExpectDenied("Push", role, ends.push, verdict);
}

void CheckReadonlyClient(const Target& target, Verdict& verdict) {
  const Ends ends = CallAll(target, CredentialsOf(target, target.options().readonly_client));
  verdict.Equal("GetStatus of a client with read access:", "OK", Text(ends.status));
  ExpectDenied("Apply", "may only read", ends.apply, verdict);
  ExpectDenied("Push", "may only read", ends.push, verdict);
}

void CheckNoCertificate(const Target& target, Verdict& verdict) {
  ExpectHungUp(target, "without a certificate", grpc::SslCredentials({target.options().ca, "", ""}),
               verdict);
}

void CheckPlaintext(const Target& target, Verdict& verdict) {
  ExpectHungUp(target, "without TLS", grpc::InsecureChannelCredentials(), verdict);
}

}  // namespace svcmap::protocol
