#include "tests/support/steady_traffic.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/support/client_socket.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using client_internal::Clock;
using client_internal::Connected;
using client_internal::Exchange;
using client_internal::Failed;
using client_internal::OpenTcp;
using client_internal::WaitFor;
using std::chrono::microseconds;

constexpr std::chrono::milliseconds kTcpWaits{200};  // TCP_RTO_MIN of Linux.

int64_t SentTwice(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_total_retrans;
}

bool MayAnswer(const TrafficTarget& target, const std::string& server) {
  return target.servers.empty() ||
         std::find(target.servers.begin(), target.servers.end(), server) != target.servers.end();
}

// Returns the reason why `answer` is not valid for `target`, or an empty string if the answer is
// valid.
std::string Complaint(const TrafficTarget& target, const Answer& answer) {
  if (answer.outcome == Outcome::kAnswered && MayAnswer(target, answer.server)) return "";
  return answer.ToString();
}

// Connects from the calling thread's namespace. Stores the connection in `fd` on success.
Answer Connect(const Request& request, UniqueFd& fd) {
  const auto destination = SocketAddress::Parse(request.destination, request.port);
  return destination.ok() ? OpenTcp(request, *destination, fd) : Failed(destination.status());
}

Answer AskOnce(const Request& request) {
  const Clock::time_point deadline = Clock::now() + request.timeout;
  const auto destination = SocketAddress::Parse(request.destination, request.port);
  if (!destination.ok()) return Failed(destination.status());
  const auto fd = Connected(request, *destination, SOCK_DGRAM, 0, /*port=*/true);
  return fd.ok() ? Exchange(fd->get(), "who\n", deadline, ParseAnswerLine) : Failed(fd.status());
}

std::string ToString(const std::string& kind, const TrafficCount& count) {
  std::string text = absl::StrCat(kind, ": ", count.attempts, ", failed ", count.failures,
                                  ", longest ", count.longest.count() / 1000, " ms");
  for (const auto& [name, number] :
       {std::pair(", slow ", count.slow), std::pair(", sent twice ", count.sent_twice),
        std::pair(", tolerated failures ", count.tolerated_failures)}) {
    if (number != 0) absl::StrAppend(&text, name, number);
  }
  return text + "\n";
}

}  // namespace

absl::Status TrafficReport::Check() const {
  const bool answered = failures() == 0 && ask.sent_twice == 0;
  const bool repeated = open.sent_twice + connect.sent_twice > 0;
  const bool stalled = SlowFactor() > 1 && ask.longest >= kTcpWaits;
  if (answered && (!repeated || stalled)) return absl::OkStatus();
  return absl::UnavailableError(ToString());
}

std::string TrafficReport::ToString() const {
  std::string text = testing::ToString("messages on open connections", open) +
                     testing::ToString("new connections", connect) +
                     testing::ToString("UDP questions", ask);
  for (const Failure& failure : first_failures) {
    absl::StrAppend(&text, "  after ", failure.at.count() / 1000, " ms, ", failure.what, "\n");
  }
  return text;
}

absl::StatusOr<std::unique_ptr<SteadyTraffic>> SteadyTraffic::Start(const NetNs& netns,
                                                                    TrafficOptions options) {
  std::unique_ptr<SteadyTraffic> traffic(new SteadyTraffic(std::move(options)));
  for (const TrafficTarget& target : traffic->options_.targets) {
    (target.request.protocol == Protocol::kTcp ? traffic->tcp_ : traffic->udp_).push_back(&target);
  }
  // Threads created in the namespace inherit the namespace.
  const absl::Status opened = netns.Run([&] {
    absl::Status status = traffic->OpenFlows();
    if (!status.ok()) return status;
    SteadyTraffic* const raw = traffic.get();
    if (!raw->tcp_.empty()) {
      raw->threads_.emplace_back([raw] { raw->KeepSending(); });
      raw->threads_.emplace_back([raw] { raw->KeepConnecting(); });
    }
    if (!raw->udp_.empty()) raw->threads_.emplace_back([raw] { raw->KeepAsking(); });
    return status;
  });
  if (!opened.ok()) return opened;
  return traffic;
}

SteadyTraffic::~SteadyTraffic() { Stop(); }

absl::Status SteadyTraffic::OpenFlows() {
  for (const TrafficTarget* target : tcp_) {
    OpenFlow flow{target, {}, 0};
    const std::string complaint = Complaint(*target, Connect(target->request, flow.fd));
    if (!complaint.empty()) {
      return absl::UnavailableError(absl::StrCat("connection to ", target->request.destination, " ",
                                                 target->request.port, ": ", complaint));
    }
    flow.sent_twice = SentTwice(flow.fd.get());
    flows_.push_back(std::move(flow));
    ++sending_;
  }
  return absl::OkStatus();
}

template <typename Attempt>
void SteadyTraffic::Pace(microseconds every, const Attempt& attempt) {
  Clock::time_point next = Clock::now();
  for (size_t i = 0; !stop_; ++i) {
    attempt(i);
    // Skip missed attempts instead of making up for them later.
    next = std::max(next + every, Clock::now() - every);
    std::this_thread::sleep_until(next);
  }
}

void SteadyTraffic::KeepSending() {
  Pace(options_.message_every / static_cast<int64_t>(flows_.size()),
       [this](size_t i) { Run(flows_[i % flows_.size()]); });
}

void SteadyTraffic::Run(OpenFlow& flow) {
  if (!flow.fd.ok()) return;
  const Clock::time_point started = Clock::now();
  const std::string message = "0123456789abcdef0123456789abcdef";
  std::string error;
  size_t received = 0;
  if (::send(flow.fd.get(), message.data(), message.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(message.size())) {
    error = absl::StrCat("send on an open connection: ", std::strerror(errno));
  }
  while (error.empty() && received < message.size()) {
    char buffer[64];
    if (!WaitFor(flow.fd.get(), POLLIN, started + flow.target->request.timeout)) {
      error = "no answer on an open connection";
      break;
    }
    const ssize_t count = ::recv(flow.fd.get(), buffer, sizeof(buffer), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0 || received + static_cast<size_t>(count) > message.size() ||
        message.compare(received, static_cast<size_t>(count), buffer, static_cast<size_t>(count)) !=
            0) {
      error = absl::StrCat("answer on an open connection: ", count < 0 ? std::strerror(errno)
                                                             : count == 0
                                                                 ? "closed"
                                                                 : "other bytes than were sent");
      break;
    }
    received += static_cast<size_t>(count);
  }
  const int64_t sent_twice = SentTwice(flow.fd.get());
  Count(&TrafficReport::open, *flow.target, started, sent_twice - flow.sent_twice, error);
  flow.sent_twice = sent_twice;
  if (error.empty()) return;
  flow.fd.Close();
  --sending_;
}

void SteadyTraffic::KeepConnecting() {
  Pace(options_.connect_every, [this](size_t i) {
    const TrafficTarget& target = *tcp_[i % tcp_.size()];
    const Clock::time_point started = Clock::now();
    UniqueFd fd;
    const std::string complaint = Complaint(target, Connect(target.request, fd));
    Count(&TrafficReport::connect, target, started, fd.ok() ? SentTwice(fd.get()) : 0, complaint);
  });
}

void SteadyTraffic::KeepAsking() {
  Pace(options_.ask_every, [this](size_t i) {
    const TrafficTarget& target = *udp_[i % udp_.size()];
    const Clock::time_point started = Clock::now();
    std::string complaint = Complaint(target, AskOnce(target.request));
    // Repeat the request once, as a resolver does, to distinguish a lost datagram from an outage.
    const bool lost = !complaint.empty();
    if (lost) complaint = Complaint(target, AskOnce(target.request));
    Count(&TrafficReport::ask, target, started, lost ? 1 : 0, complaint);
  });
}

void SteadyTraffic::Count(TrafficCount TrafficReport::*kind, const TrafficTarget& target,
                          Clock::time_point started, int64_t sent_twice, const std::string& error) {
  const auto took = std::chrono::duration_cast<microseconds>(Clock::now() - started);
  const std::lock_guard lock(mutex_);
  TrafficCount& count = report_.*kind;
  ++count.attempts;
  if (!target.steady) {
    if (!error.empty()) ++count.tolerated_failures;
    return;
  }
  count.longest = std::max(count.longest, took);
  count.sent_twice += sent_twice;
  if (error.empty()) {
    if (took > TrafficCount::kSlow) ++count.slow;
    return;
  }
  ++count.failures;
  if (report_.first_failures.size() >= TrafficReport::kFailuresKept) return;
  report_.first_failures.push_back(
      {std::chrono::duration_cast<microseconds>(started - start_),
       absl::StrCat(ProtocolName(target.request.protocol), " ", target.request.destination, " ",
                    target.request.port, ": ", error)});
}

absl::Status SteadyTraffic::Go(int64_t count) const {
  const TrafficReport before = Report();
  const auto done = [&] {
    const TrafficReport now = Report();
    // Wait for one additional attempt, because the first counted attempt may have started before
    // this call.
    const auto enough = [&](const TrafficCount TrafficReport::*kind, bool there) {
      return !there || (now.*kind).attempts > (before.*kind).attempts + count;
    };
    return enough(&TrafficReport::open, sending_ > 0) &&
           enough(&TrafficReport::connect, !tcp_.empty()) &&
           enough(&TrafficReport::ask, !udp_.empty());
  };
  if (WaitUntil(done)) return absl::OkStatus();
  return absl::DeadlineExceededError("traffic is stuck: " + Report().ToString());
}

TrafficReport SteadyTraffic::Report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

TrafficReport SteadyTraffic::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return Report();
}

}  // namespace svcmap::testing
