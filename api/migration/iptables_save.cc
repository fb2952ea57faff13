#include "api/migration/iptables_save.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

const std::string kNothing;  // NOLINT(cert-err58-cpp)

// Splits a line at spaces. Words in double quotes may contain spaces, \" and \\.
std::vector<std::string> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  bool quoted = false, in_word = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (!quoted && c == ' ') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted && c == '\\' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else {
      words.back() += c;
    }
  }
  return words;
}

// Parses the comment "# Table `nat' is incompatible, use 'nft' tool."
void ReadComment(std::string_view line, IptablesSave& save) {
  constexpr std::string_view kTable = "# Table `";
  const size_t end = line.find("' is incompatible");
  if (!line.starts_with(kTable) || end == std::string_view::npos) return;
  save.incompatible.emplace_back(line.substr(kTable.size(), end - kTable.size()));
}

// Parses a line that is not a comment. Returns false if the line is not valid iptables-save output.
bool ReadLine(std::string_view line, IptablesSave& save) {
  if (line == "COMMIT") return true;
  if (line.starts_with("*") && line.size() > 1) {
    save.tables.push_back({.name = std::string(line.substr(1)), .chains = {}, .rules = {}});
    return true;
  }
  if (save.tables.empty()) return false;
  IptablesTable& table = save.tables.back();
  std::vector<std::string> words = SplitWords(line);
  if (words.size() < 2) return false;
  if (line.starts_with(":")) {
    table.chains.push_back({.name = words[0].substr(1), .policy = words[1]});
    return true;
  }
  if (words[0] != "-A") return false;
  table.rules.push_back({.words = std::move(words), .text = std::string(line)});
  return true;
}

// Returns the word after `option`. Ignores negated options and the value of --comment.
const std::string& ValueOf(const std::vector<std::string>& words, std::string_view option) {
  for (size_t i = 2; i + 1 < words.size(); ++i) {
    if (words[i] == "--comment") {
      ++i;
    } else if (words[i] == option && words[i - 1] != "!") {
      return words[i + 1];
    }
  }
  return kNothing;
}

}  // namespace

const std::string& IptablesRule::target() const {
  const std::string& jump = ValueOf(words, "-j");
  return jump.empty() ? ValueOf(words, "-g") : jump;
}

const std::string& IptablesRule::value(std::string_view option) const {
  return ValueOf(words, option);
}

absl::StatusOr<IptablesSave> ParseIptablesSave(std::string_view text) {
  IptablesSave save;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (line.starts_with("#")) {
      ReadComment(line, save);
    } else if (!ReadLine(line, save)) {
      return absl::InvalidArgumentError(absl::StrCat("cannot parse line ", Quote(line)));
    }
  }
  return save;
}

bool IptablesRule::drops() const {
  const std::string& does = target();
  return does == "DROP" || does == "REJECT";
}

bool DropsByDefault(const IptablesTable& table, std::string_view chain) {
  const auto drops = [&](const IptablesChain& c) { return c.name == chain && c.policy == "DROP"; };
  if (std::any_of(table.chains.begin(), table.chains.end(), drops)) return true;
  // Searches for a drop rule without a condition: "-A FORWARD -j REJECT --reject-with
  // icmp-host-prohibited".
  return std::any_of(table.rules.begin(), table.rules.end(), [&](const IptablesRule& rule) {
    if (rule.chain() != chain || !rule.drops()) return false;
    const bool comment = rule.words[2] == "-m" && rule.words[3] == "comment";
    const size_t after = comment ? 6 : 2;  // Skips "-m comment --comment TEXT".
    return rule.words.size() > after && rule.words[after] == "-j";
  });
}

bool AcceptsTranslated(const IptablesTable& table, std::string_view chain) {
  const std::vector<std::string> rule = {
      "-A", std::string(chain), "-m", "conntrack", "--ctstate", "DNAT", "-j", "ACCEPT"};
  return std::any_of(table.rules.begin(), table.rules.end(),
                     [&](const IptablesRule& other) { return other.words == rule; });
}

}  // namespace svcmap::api
