// Converts the output of `nft --debug=netlink list` to a form that tests can compare.
#pragma once

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace svcmap::testing {

class Instructions {
 public:
  // Removes details that may differ between equal rulesets: rule handles, numbers of the { tcp,
  // udp, sctp } sets, and the order of elements (the kernel's hash is random). Also removes result
  // registers of lookups, because svcmapd's rules place the result behind the key and nft's rules
  // use the same register. Also removes nft's byte order conversion of a single byte (meta l4proto
  // in keys of ranges), which has no effect.
  static std::string Comparable(const std::string& text) {
    Instructions instructions;
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    std::erase_if(lines, [](const std::string& line) {
      return line.find("[ byteorder reg") != line.npos && line.find(", 2, 1) ]") != line.npos;
    });
    for (std::string& line : lines) line = instructions.Line(line);
    const auto is_element = [](const std::string& line) { return line.rfind("\telement", 0) == 0; };
    for (auto begin = lines.begin(); begin != lines.end();) {
      begin = std::find_if(begin, lines.end(), is_element);
      const auto end = std::find_if_not(begin, lines.end(), is_element);
      std::sort(begin, end);
      begin = end;
    }
    return absl::StrJoin(lines, "\n");
  }

 private:
  std::string Line(const std::string& line) {
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    // The line starts a rule and contains its handle and position.
    if (words[0] == "ip" || words[0] == "ip6") {
      result_.reset();
      while (words.size() > 3 && IsNumber(words.back())) words.pop_back();
    }
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i].rfind("__set", 0) == 0) words[i] = "__set";
      if (words[i - 1] == "dreg" && words[i] != "0" && line.find("lookup") != line.npos) {
        result_ = RegisterWord(words[i]);
        words[i] = "RESULT";
      } else if (words[i - 1] == "reg" && result_ && UsesResult(words[i - 2])) {
        words[i] = "RESULT+" + std::to_string(RegisterWord(words[i]) - *result_);
      }
    }
    return absl::StrJoin(words, " ");
  }

  static bool IsNumber(const std::string& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
  }

  // Returns true for words that precede the result register, as in "payload write reg N", "addr_min
  // reg N" or "proto_max reg N".
  static bool UsesResult(const std::string& word) {
    return word == "write" || word.find("_min") != word.npos || word.find("_max") != word.npos;
  }

  // Returns the index of a register's first word. The registers 1 to 4 hold four words each. From
  // register 8, each register is one word, so the registers 1 and 8 are the same.
  static int RegisterWord(const std::string& number) {
    const int value = std::stoi(number);
    return value <= 4 ? (value - 1) * 4 : value - 8;
  }

  std::optional<int> result_;  // Register word with the result of the rule's last lookup.
};

}  // namespace svcmap::testing
