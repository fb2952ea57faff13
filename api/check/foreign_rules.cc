#include "api/check/foreign_rules.h"

#include <algorithm>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace svcmap::api {
namespace {

// Splits a rule into words. Removes quoted strings, braces and commas.
std::vector<std::string> RuleWords(std::string_view rule) {
  std::string plain;
  bool quoted = false;
  for (const char c : rule) {
    if (c == '"') quoted = !quoted;
    plain += quoted || c == '"' || c == '{' || c == '}' || c == ',' ? ' ' : c;
  }
  std::vector<std::string> words;
  for (const auto word : absl::StrSplit(plain, ' ', absl::SkipEmpty())) words.emplace_back(word);
  return words;
}

// Parses "10.0.0.1" or "10.0.0.0/8".
std::optional<IpPrefix> PrefixOf(const std::string& word) {
  if (const std::optional<IpAddress> address = IpAddress::Parse(word)) {
    return IpPrefix(*address, static_cast<uint8_t>(address->size() * 8));
  }
  return IpPrefix::Parse(word);
}

// Parses "80", "8000-9000" or "8000:9000". Returns nullopt for names such as "ssh".
std::optional<std::pair<int, int>> PortsOf(const std::string& word) {
  const std::vector<std::string> ends =
      absl::StrSplit(word, absl::MaxSplits(absl::ByAnyChar("-:"), 1));
  int first = 0, last = 0;
  if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last)) {
    return std::nullopt;
  }
  return std::pair(first, last);
}

// Result of one condition of a rule, such as "ip daddr 10.0.0.0/8".
RuleMatch MatchAddress(const std::vector<std::string>& values, const ConnectionParts& connection) {
  for (const std::string& value : values) {
    const std::optional<IpPrefix> prefix = PrefixOf(value);
    if (!prefix) return RuleMatch::kPossible;  // A set, a range or a negation.
    for (const IpAddress& address : connection.addresses) {
      if (!prefix->Contains(address)) continue;
      return prefix->length() == 0 ? RuleMatch::kPossible : RuleMatch::kExplicit;
    }
  }
  return RuleMatch::kNo;
}

RuleMatch MatchPort(const std::vector<std::string>& values, const ConnectionParts& connection) {
  for (const std::string& value : values) {
    const std::optional<std::pair<int, int>> range = PortsOf(value);
    if (!range) return RuleMatch::kPossible;
    for (const uint16_t port : connection.ports) {
      if (port >= range->first && port <= range->second) return RuleMatch::kExplicit;
    }
  }
  return RuleMatch::kNo;
}

bool IsProtocol(const std::string& word) {
  return word == "tcp" || word == "udp" || word == "sctp" || word == "icmp" || word == "icmpv6";
}

// Returns the values that follow the keyword at `index`, up to the next keyword.
std::vector<std::string> ValuesAfter(const std::vector<std::string>& words, size_t index) {
  std::vector<std::string> values;
  for (size_t i = index + 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool value = absl::ascii_isdigit(word[0]) || word[0] == '@' || word == "!=" ||
                       word.find(':') != std::string::npos || values.empty();
    if (!value) break;
    values.push_back(word);
  }
  return values;
}

}  // namespace

std::vector<ForeignRule> ParseForeignRules(std::string_view listing) {
  std::vector<ForeignRule> rules;
  std::string family, table, chain;
  bool own = false;
  for (const auto line : absl::StrSplit(absl::string_view(listing.data(), listing.size()), '\n')) {
    const std::string text(absl::StripAsciiWhitespace(line));
    const std::vector<std::string> words = RuleWords(text);
    if (words.empty()) continue;
    if (words[0] == "table" && words.size() >= 3) {
      family = words[1];
      table = words[2];
      own = table == "svcmap" && (family == "ip" || family == "ip6");
      chain.clear();
    } else if (words.size() == 2 && text.ends_with('{')) {
      chain = words[0] == "chain" ? words[1] : "";  // Empty inside a set or map.
    } else if (!own && !chain.empty()) {
      const bool policy = words[0] == "type";
      const bool drops = policy ? text.find("policy drop") != std::string::npos
                                : absl::c_linear_search(words, "drop");
      const bool rejects = !policy && absl::c_linear_search(words, "reject");
      if (!drops && !rejects) continue;
      rules.push_back({family, absl::StrCat(family, " ", table, " ", chain),
                       policy ? "policy drop" : text, rejects});
    }
  }
  return rules;
}

RuleMatch MatchRule(const ForeignRule& rule, const ConnectionParts& connection) {
  const bool v6 =
      !connection.addresses.empty() && connection.addresses[0].family() == Family::kIpv6;
  if (rule.family == (v6 ? "ip" : "ip6") || rule.family == "arp") return RuleMatch::kNo;
  const std::vector<std::string> words = RuleWords(rule.text);
  RuleMatch match = RuleMatch::kPossible;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    RuleMatch condition = RuleMatch::kPossible;
    if (i > 0 && words[i - 1] == "!") continue;  // A negated condition of iptables.
    if (word == "saddr" || word == "daddr" || word == "-s" || word == "-d") {
      if (i > 0 && words[i - 1] == "ether") continue;
      condition = MatchAddress(ValuesAfter(words, i), connection);
    } else if (word == "dport" || word == "--dport" || word == "--dports") {
      condition = MatchPort(ValuesAfter(words, i), connection);
    } else if (word == "--ctstate" || word == "--state") {
      if (!absl::c_linear_search(words, "NEW")) condition = RuleMatch::kNo;
    } else if (word == "state" && i > 0 && words[i - 1] == "ct") {
      if (i + 1 < words.size() && words[i + 1].find("new") == std::string::npos &&
          words[i + 1] != "!=" && !absl::c_linear_search(words, "new")) {
        condition = RuleMatch::kNo;
      }
    } else if (word == "ip" || word == "ip6") {
      if (word == (v6 ? "ip" : "ip6")) condition = RuleMatch::kNo;
    } else if (IsProtocol(word) && !(i > 0 && words[i - 1] == "with")) {
      std::string name(proxy::ProtocolName(connection.protocol));
      absl::AsciiStrToLower(&name);
      const bool list = i > 0 && IsProtocol(words[i - 1]);  // "meta l4proto { tcp, udp }"
      const bool more = i + 1 < words.size() && IsProtocol(words[i + 1]);
      if (word != name && !list && !more) condition = RuleMatch::kNo;
    }
    if (condition == RuleMatch::kNo) return RuleMatch::kNo;
    match = std::max(match, condition);
  }
  return match;
}

}  // namespace svcmap::api
