#include "tests/support/error_counters.h"

#include <fstream>
#include <map>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace svcmap::testing {
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
