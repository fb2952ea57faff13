// Makes two outputs of `nft --debug=netlink list` comparable.
#pragma once

#include <algorithm>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace svcmap::testing {

// Registers 1..4 hold four words each; from 8 on each is one word: 1 and 8 are the same.
inline int RegisterWord(int number) { return number <= 4 ? (number - 1) * 4 : number - 8; }

// Takes out what may differ between equal rulesets: rule handles, the order of elements (the
// kernel's hash is random), and the registers for what a look-up returns: ours lie behind the key,
// nft's on it.
inline std::string ComparableInstructions(const std::string& text) {
  static const std::regex kRule(R"(^(ip6? \S+ \S+)( \d+)+$)");
  static const std::regex kResult(R"( dreg ([1-9]\d*))");
  static const std::regex kSet(R"(__set\d+)");
  static const std::regex kUse(R"(^(.*(?:write|min|max) reg )(\d+)(.*)$)");
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::optional<int> result;  // The word where the last look-up of the rule put its data.
  for (std::string& line : lines) {
    std::smatch match;
    if (std::regex_match(line, match, kRule)) {
      line = match[1];
      result.reset();
    } else if (std::regex_search(line, match, kResult) && line.find("lookup") != line.npos) {
      result = RegisterWord(std::stoi(match[1]));
      line = match.prefix().str() + " dreg RESULT" + match.suffix().str();
    }
    std::string rest = line;
    while (result && std::regex_match(rest, match, kUse)) {  // From the last one to the first.
      const int word = RegisterWord(std::stoi(match[2])) - *result;
      rest = match[1].str() + "RESULT+" + std::to_string(word) + match[3].str();
    }
    line = std::regex_replace(rest, kSet, "__set");
  }
  const auto is_element = [](const std::string& line) { return line.rfind("\telement", 0) == 0; };
  for (auto begin = lines.begin(); begin != lines.end();) {
    begin = std::find_if(begin, lines.end(), is_element);
    const auto end = std::find_if_not(begin, lines.end(), is_element);
    std::sort(begin, end);
    begin = end;
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace svcmap::testing
