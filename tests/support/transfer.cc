#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/support/client_socket.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {

namespace {

using client_internal::Clock;
using client_internal::Connected;
using client_internal::OpenTcp;
using client_internal::WaitFor;

// Returns bytes that depend on their offset, so that a comparison detects swapped, lost or repeated
// segments.
std::string PseudoRandomBytes(size_t size) {
  std::string bytes(size, '\0');
  std::mt19937_64 generator{std::random_device{}()};
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t value = generator();
    std::memcpy(bytes.data() + at, &value, std::min<size_t>(8, size - at));
  }
  return bytes;
}

absl::Status Compare(const std::string& sent, size_t offset, const char* received, size_t count) {
  if (std::memcmp(sent.data() + offset, received, count) == 0) return absl::OkStatus();
  const auto* first = std::mismatch(received, received + count, sent.data() + offset).first;
  return absl::DataLossError(absl::StrCat("wrong byte at offset ", offset + (first - received)));
}

}  // namespace

absl::StatusOr<TcpFlow> TcpFlow::Open(const NetNs& netns, const Request& request) {
  absl::StatusOr<SocketAddress> destination =
      SocketAddress::Parse(request.destination, request.port);
  if (!destination.ok()) return destination.status();
  UniqueFd fd;
  Answer answer = netns.Run([&] { return OpenTcp(request, *destination, fd); });
  if (answer.outcome != Outcome::kAnswered) return absl::UnavailableError(answer.ToString());
  return TcpFlow(std::move(fd), std::move(answer));
}

absl::Status TcpFlow::Exchange(size_t bytes, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  const std::string data = PseudoRandomBytes(bytes);
  std::vector<char> buffer(256 * 1024);
  size_t sent = 0;
  size_t received = 0;
  while (received < bytes) {
    const short events = static_cast<short>(sent < bytes ? POLLIN | POLLOUT : POLLIN);
    if (!WaitFor(fd_.get(), events, deadline)) {
      return absl::DeadlineExceededError(
          absl::StrCat("sent ", sent, " and received ", received, " of ", bytes, " bytes"));
    }
    if (sent < bytes) {
      const ssize_t count =
          ::send(fd_.get(), data.data() + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) sent += static_cast<size_t>(count);
      if (count < 0 && errno != EAGAIN) {
        return absl::UnavailableError(
            absl::StrCat("send after ", sent, " bytes: ", std::strerror(errno)));
      }
    }
    const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) continue;
    if (count <= 0) {
      return absl::UnavailableError(absl::StrCat(
          "receive after ", received, " bytes: ", count == 0 ? "closed" : std::strerror(errno)));
    }
    if (received + static_cast<size_t>(count) > sent)
      return absl::DataLossError("more came back than was sent");
    absl::Status same = Compare(data, received, buffer.data(), static_cast<size_t>(count));
    if (!same.ok()) return same;
    received += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<Answer> BulkTcp(const NetNs& netns, const Request& request, size_t bytes) {
  absl::StatusOr<TcpFlow> flow = TcpFlow::Open(netns, request);
  if (!flow.ok()) return flow.status();
  absl::Status status = flow->Exchange(bytes, request.timeout);
  if (!status.ok()) return status;
  return flow->answer();
}

absl::Status BigUdp(const NetNs& netns, const Request& request, size_t bytes) {
  absl::StatusOr<SocketAddress> destination =
      SocketAddress::Parse(request.destination, request.port);
  if (!destination.ok()) return destination.status();
  const Clock::time_point deadline = Clock::now() + request.timeout;
  absl::StatusOr<UniqueFd> fd =
      netns.Run([&] { return Connected(request, *destination, SOCK_DGRAM, 0, /*port=*/true); });
  if (!fd.ok()) return fd.status();
  const std::string data = PseudoRandomBytes(bytes);
  std::string received;
  const Answer answer = client_internal::Exchange(fd->get(), data, deadline,
                                                  [&](const std::string& message, Answer*) {
                                                    received = message;
                                                    return true;
                                                  });
  if (answer.outcome != Outcome::kAnswered) return absl::UnavailableError(answer.ToString());
  if (received.size() != bytes) {
    return absl::DataLossError(absl::StrCat("sent ", bytes, " bytes, received ", received.size()));
  }
  return Compare(data, 0, received.data(), bytes);
}

namespace {

struct CounterField {
  // Name of the counter in snmp6, or the concatenated names of line and column in snmp.
  const char* key;
  int64_t ErrorCounters::*member;
};

constexpr CounterField kFields[] = {
    {"TcpInCsumErrors", &ErrorCounters::tcp_bad_checksums},
    {"UdpInErrors", &ErrorCounters::udp_in_errors},
    {"UdpInCsumErrors", &ErrorCounters::udp_bad_checksums},
    {"Udp6InErrors", &ErrorCounters::udp6_in_errors},
    {"Udp6InCsumErrors", &ErrorCounters::udp6_bad_checksums},
    {"IcmpInErrors", &ErrorCounters::icmp_in_errors},
    {"IcmpInCsumErrors", &ErrorCounters::icmp_bad_checksums},
    {"Icmp6InErrors", &ErrorCounters::icmp6_in_errors},
    {"Icmp6InCsumErrors", &ErrorCounters::icmp6_bad_checksums},
};

using Values = std::map<std::string, int64_t>;

// Reads pairs of lines: "Tcp: InSegs InErrs ..." and "Tcp: 12 0 ...".
void ReadSnmp(Values& values) {
  std::ifstream file("/proc/thread-self/net/snmp");
  std::string names;
  std::string numbers;
  while (std::getline(file, names) && std::getline(file, numbers)) {
    std::istringstream name_stream(names);
    std::istringstream number_stream(numbers);
    std::string protocol;
    std::string skipped;
    name_stream >> protocol;
    number_stream >> skipped;
    protocol.pop_back();  // Remove the colon.
    std::string name;
    int64_t number = 0;
    while (name_stream >> name && number_stream >> number) values[protocol + name] = number;
  }
}

// Reads lines of the form "Udp6InErrors   0".
void ReadSnmp6(Values& values) {
  std::ifstream file("/proc/thread-self/net/snmp6");
  std::string name;
  int64_t number = 0;
  while (file >> name >> number) values[name] = number;
}

Values ReadValues(const NetNs& netns) {
  return netns.Run([] {
    Values values;
    ReadSnmp(values);
    ReadSnmp6(values);
    return values;
  });
}

}  // namespace

std::string ErrorCounters::ToString() const {
  std::string text;
  for (const CounterField& field : kFields) {
    if (this->*field.member != 0) absl::StrAppend(&text, field.key, "=", this->*field.member, " ");
  }
  return text.empty() ? "no errors" : text;
}

ErrorCounters operator-(const ErrorCounters& after, const ErrorCounters& before) {
  ErrorCounters difference;
  for (const CounterField& field : kFields)
    difference.*field.member = after.*field.member - before.*field.member;
  return difference;
}

std::ostream& operator<<(std::ostream& out, const ErrorCounters& counters) {
  return out << counters.ToString();
}

absl::StatusOr<ErrorCounters> ReadErrorCounters(const NetNs& netns) {
  const Values values = ReadValues(netns);
  ErrorCounters counters;
  for (const CounterField& field : kFields) {
    const auto found = values.find(field.key);
    if (found == values.end()) return absl::NotFoundError(absl::StrCat("no counter ", field.key));
    counters.*field.member = found->second;
  }
  return counters;
}

absl::StatusOr<int64_t> ReadCounter(const NetNs& netns, const std::string& key) {
  const Values values = ReadValues(netns);
  const auto found = values.find(key);
  if (found == values.end()) return absl::NotFoundError(absl::StrCat("no counter ", key));
  return found->second;
}

}  // namespace svcmap::testing
