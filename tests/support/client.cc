#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/client.h"
#include "tests/support/client_socket.h"
#include "tests/support/sctp_packet.h"

namespace svcmap::testing {

namespace {

using client_internal::Clock;
using client_internal::Connected;
using client_internal::Exchange;
using client_internal::Failed;
using client_internal::OpenTcp;

uint32_t RandomNumber() {
  thread_local std::mt19937 generator{std::random_device{}()};
  return static_cast<uint32_t>(generator());
}

// Returns a source port that was not used recently. Conntrack keeps the entry of a finished UDP
// flow for 30 seconds, and sends datagrams with the same ports to the same endpoint. Therefore, a
// port is reused only after all other ports have been used.
uint16_t NextSourcePort() {
  constexpr uint32_t kFirst = 32768, kCount = 28000;
  static std::atomic<uint32_t> next{RandomNumber() % kCount};
  return static_cast<uint16_t>(kFirst + next++ % kCount);
}

Request WithSourcePort(Request request) {
  if (request.source_port == 0) request.source_port = NextSourcePort();
  return request;
}

// Removes the IP header that raw IPv4 sockets deliver with each packet.
std::string WithoutIpHeader(const std::string& packet, bool v6) {
  if (v6 || packet.empty()) return packet;
  const size_t header = static_cast<size_t>(packet[0] & 0x0f) * 4;
  return packet.size() < header ? "" : packet.substr(header);
}

Answer AskUdp(const Request& given, const SocketAddress& destination) {
  const Request request = WithSourcePort(given);
  const Clock::time_point deadline = Clock::now() + request.timeout;
  absl::StatusOr<UniqueFd> fd = Connected(request, destination, SOCK_DGRAM, 0, /*port=*/true);
  if (!fd.ok()) return Failed(fd.status());
  return Exchange(fd->get(), "who\n", deadline, ParseAnswerLine);
}

Answer AskSctp(const Request& given, const SocketAddress& destination) {
  const Request request = WithSourcePort(given);
  const Clock::time_point deadline = Clock::now() + request.timeout;
  SocketAddress host = destination;  // A raw IPv6 socket interprets the port as a protocol number.
  if (absl::StatusOr<SocketAddress> parsed = SocketAddress::Parse(destination.ip(), 0); parsed.ok())
    host = *parsed;
  absl::StatusOr<UniqueFd> fd = Connected(request, host, SOCK_RAW, IPPROTO_SCTP, /*port=*/false);
  if (!fd.ok()) return Failed(fd.status());
  SctpPacket init;
  init.source_port = request.source_port;
  init.destination_port = request.port;
  init.chunk_type = kSctpInit;
  init.initiate_tag = RandomNumber() | 1;
  const bool v6 = destination.v6();
  return Exchange(
      fd->get(), BuildSctpPacket(init), deadline, [&](const std::string& message, Answer* answer) {
        absl::StatusOr<SctpPacket> reply = ParseSctpPacket(WithoutIpHeader(message, v6));
        if (reply.status().code() == absl::StatusCode::kDataLoss) {
          *answer = Failed(reply.status());
          return true;
        }
        if (!reply.ok() || reply->source_port != init.destination_port ||
            reply->destination_port != init.source_port ||
            reply->verification_tag != init.initiate_tag) {
          // Ignores packets from other flows, because a raw socket receives the packets of all
          // flows.
          return false;
        }
        if (reply->chunk_type == kSctpAbort) {
          answer->outcome = Outcome::kRejected;
          answer->detail = "SCTP ABORT";
          return true;
        }
        if (reply->chunk_type != kSctpInitAck) return false;
        if (!ParseAnswerLine(reply->cookie, answer))
          *answer = Failed(absl::UnknownError("unexpected cookie"));
        return true;
      });
}

uint16_t InternetChecksum(const void* data, size_t size) {
  uint32_t sum = 0;
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < size; i += 2) {
    sum += static_cast<uint32_t>(bytes[i] << 8) | (i + 1 < size ? bytes[i + 1] : 0u);
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<uint16_t>(~sum));
}

Answer PingHere(const Request& request, const SocketAddress& destination) {
  const Clock::time_point deadline = Clock::now() + request.timeout;
  const bool v6 = destination.v6();
  absl::StatusOr<UniqueFd> fd = Connected(
      request, destination, SOCK_RAW, v6 ? int{IPPROTO_ICMPV6} : int{IPPROTO_ICMP}, /*port=*/false);
  if (!fd.ok()) return Failed(fd.status());
  // An ICMPv6 echo request has the same layout as an ICMP echo request. The kernel calculates the
  // ICMPv6 checksum.
  icmphdr echo = {};
  echo.type = v6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
  echo.un.echo.id =
      request.source_port != 0 ? htons(request.source_port) : static_cast<uint16_t>(RandomNumber());
  echo.un.echo.sequence = htons(1);
  if (!v6) echo.checksum = InternetChecksum(&echo, sizeof(echo));
  const std::string packet(reinterpret_cast<const char*>(&echo), sizeof(echo));
  return Exchange(fd->get(), packet, deadline, [&](const std::string& message, Answer* answer) {
    const std::string reply = WithoutIpHeader(message, v6);
    icmphdr header;
    if (reply.size() < sizeof(header)) return false;
    std::memcpy(&header, reply.data(), sizeof(header));
    const int echo_reply = v6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY;
    if (header.type != echo_reply) return false;
    if (header.un.echo.id != echo.un.echo.id) return false;
    answer->outcome = Outcome::kAnswered;
    return true;
  });
}

// Sends the request in the calling thread's network namespace.
Answer AskHere(const Request& request) {
  absl::StatusOr<SocketAddress> destination =
      SocketAddress::Parse(request.destination, request.port);
  if (!destination.ok()) return Failed(destination.status());
  switch (request.protocol) {
    case Protocol::kTcp: {
      UniqueFd fd;
      return OpenTcp(request, *destination, fd);
    }
    case Protocol::kUdp:
      return AskUdp(request, *destination);
    case Protocol::kSctp:
      return AskSctp(request, *destination);
  }
  return Answer();
}

}  // namespace

Answer Ask(const NetNs& netns, const Request& request) {
  return netns.Run([&] { return AskHere(request); });
}

std::vector<Answer> AskAll(const NetNs& netns, const std::vector<Request>& requests, int parallel) {
  std::vector<Answer> answers(requests.size());
  std::atomic<size_t> next{0};
  const auto ask_what_is_left = [&] {
    for (size_t i = next++; i < requests.size(); i = next++) answers[i] = AskHere(requests[i]);
  };
  // Threads created in the namespace inherit the namespace.
  netns.Run([&] {
    std::vector<std::thread> helpers;
    for (int i = 1; i < parallel && static_cast<size_t>(i) < requests.size(); ++i) {
      helpers.emplace_back(ask_what_is_left);
    }
    ask_what_is_left();
    for (std::thread& helper : helpers) helper.join();
  });
  return answers;
}

Answer Ping(const NetNs& netns, const Request& request) {
  return netns.Run([&] {
    absl::StatusOr<SocketAddress> destination = SocketAddress::Parse(request.destination, 0);
    return destination.ok() ? PingHere(request, *destination) : Failed(destination.status());
  });
}

std::string Tally::ToString() const {
  std::string text = absl::StrCat("answered ", answered, ", rejected ", rejected, ", timed out ",
                                  timed_out, ", other ", other);
  for (const auto& [server, count] : by_server) absl::StrAppend(&text, ", ", server, "=", count);
  if (rejected + timed_out + other > 0)
    absl::StrAppend(&text, "; first: ", first_failure.ToString());
  return text;
}

Tally AskMany(const NetNs& netns, const Request& request, int count) {
  return netns.Run([&] {
    Tally tally;
    for (int i = 0; i < count; ++i) {
      const Answer answer = AskHere(request);
      if (answer.outcome != Outcome::kAnswered && tally.answered == i) tally.first_failure = answer;
      switch (answer.outcome) {
        case Outcome::kAnswered:
          ++tally.answered;
          ++tally.by_server[answer.server];
          break;
        case Outcome::kRejected:
          ++tally.rejected;
          break;
        case Outcome::kTimedOut:
          ++tally.timed_out;
          break;
        case Outcome::kOther:
          ++tally.other;
          break;
      }
    }
    return tally;
  });
}

namespace {

constexpr const char* kOutcomeNames[] = {"answered", "rejected", "timed out", "other"};

const char* OutcomeName(Outcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }

}  // namespace

const char* ProtocolName(Protocol protocol) {
  constexpr const char* kNames[] = {"tcp", "udp", "sctp"};
  return kNames[static_cast<size_t>(protocol)];
}

std::string Answer::ToString() const {
  std::string text = OutcomeName(outcome);
  if (outcome == Outcome::kAnswered)
    absl::StrAppend(&text, " by ", server, ", seen from ", seen_ip, " ", seen_port);
  if (icmp_type >= 0)
    absl::StrAppend(&text, ", icmp ", icmp_type, "/", icmp_code, " from ", icmp_from);
  if (!detail.empty()) absl::StrAppend(&text, " (", detail, ")");
  return text;
}

std::ostream& operator<<(std::ostream& out, Outcome outcome) { return out << OutcomeName(outcome); }
std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << answer.ToString();
}

std::string FormatAnswerLine(const std::string& server, const std::string& ip, uint16_t port) {
  return absl::StrCat(server, " ", ip, " ", port, "\n");
}

bool ParseAnswerLine(const std::string& line, Answer* answer) {
  if (line.empty() || line.back() != '\n') return false;
  const std::vector<std::string> words = absl::StrSplit(absl::StripAsciiWhitespace(line), ' ');
  uint32_t port = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[2], &port) || port > 65535) return false;
  answer->outcome = Outcome::kAnswered;
  answer->server = words[0];
  answer->seen_ip = words[1];
  answer->seen_port = static_cast<uint16_t>(port);
  return true;
}

}  // namespace svcmap::testing
