#include "tests/support/answer.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace svcmap::testing {
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
