#include "tests/conformance/test_list.h"

#include <cctype>
#include <regex>
#include <sstream>

namespace svcmap::conformance {
namespace {

// Removes a parameter without a requirement number. If the parameter contains a requirement number,
// replaces IPv4 and IPv6 with "*": "Row/S74_IPv4_ClusterIp" becomes "Row/S74_*_ClusterIp".
std::string WithoutUninterestingParameter(const std::string& test) {
  const size_t slash = test.find('/');
  if (slash == std::string::npos) return test;
  if (RequirementsIn(test.substr(slash)).empty()) return test.substr(0, slash);
  return std::regex_replace(test, std::regex("IPv[46]"), "*");
}

}  // namespace

std::vector<int> RequirementsIn(std::string_view name) {
  std::vector<int> numbers;
  bool begins = false;  // True if a requirement number may start at this position.
  bool to = false;
  for (size_t at = 0; at < name.size();) {
    if (begins && name[at] == 'S' && at + 1 < name.size() && std::isdigit(name[at + 1])) {
      int number = 0;
      for (++at; at < name.size() && std::isdigit(name[at]); ++at) {
        number = number * 10 + (name[at] - '0');
      }
      while (to && numbers.back() + 1 < number) numbers.push_back(numbers.back() + 1);
      numbers.push_back(number);
      to = name.substr(at).starts_with("ToS");
      if (to) at += 2;
      continue;
    }
    begins = name[at] == '.' || name[at] == '_' || name[at] == '/';
    to = false;
    ++at;
  }
  return numbers;
}

std::string TestName(std::string_view suite, std::string_view test) {
  // Remove the name of the instantiation, which ends with the last slash.
  suite = suite.substr(suite.rfind('/') + 1);
  return std::string(suite) + "." + WithoutUninterestingParameter(std::string(test));
}

void AddTests(const std::string& program, std::string_view listing, TestList& tests) {
  std::istringstream lines{std::string(listing)};
  std::string suite;
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find("  #"));
    if (!line.starts_with("  ")) {
      // Ignore the line "Running main() from ...", which is not a suite.
      suite = line.ends_with('.') ? line.substr(0, line.find('.')) : "";
      continue;
    }
    if (suite.empty() || line.find("DISABLED_") != std::string::npos) continue;
    const std::string name = TestName(suite, line.substr(2));
    tests.programs[name].insert(program);
    for (const int number : RequirementsIn(name)) tests.by_requirement[number].insert(name);
  }
}

}  // namespace svcmap::conformance
