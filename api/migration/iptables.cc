#include "api/migration/iptables.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/quote.h"
#include "api/migration/program.h"
#include "nft/base/status.h"

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

// Returns the existing legacy tables that kube-proxy uses. Only root can read the list of legacy
// tables, because capabilities are not sufficient.
absl::StatusOr<std::vector<std::string>> LegacyTables(Family family) {
  const std::string path = absl::StrCat("/proc/thread-self/net/",
                                        family == Family::kIpv4 ? "ip" : "ip6", "_tables_names");
  errno = 0;
  std::ifstream file(path);
  if (!file.is_open() && errno != ENOENT) return ErrnoStatus(errno, path);
  std::vector<std::string> tables;
  for (std::string name; file >> name;) {
    if (name == "filter" || name == "nat" || name == "mangle") tables.push_back(name);
  }
  return tables;
}

absl::StatusOr<IptablesSave> Save(const std::string& program, const std::stop_token& stop) {
  const absl::StatusOr<std::string> text = RunProgram({program}, "", stop);
  if (!text.ok()) return text.status();
  absl::StatusOr<IptablesSave> save = ParseIptablesSave(*text);
  return save.ok() ? std::move(save) : Annotate(save.status(), program);
}

}  // namespace

const std::string& IptablesRule::target() const {
  const std::string& jump = value("-j");
  return jump.empty() ? value("-g") : jump;
}

// Skips the text of --comment, which can be equal to an option.
const std::string& IptablesRule::value(std::string_view option) const {
  for (size_t i = 2; i + 1 < words.size(); ++i) {
    if (words[i] == "--comment") {
      ++i;
    } else if (words[i] == option && words[i - 1] != "!") {
      return words[i + 1];
    }
  }
  return kNothing;
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
  return std::ranges::find(table.rules, rule, &IptablesRule::words) != table.rules.end();
}

std::string IptablesFlavour::ToString() const {
  return absl::StrCat(family == Family::kIpv4 ? "iptables" : "ip6tables",
                      legacy ? "-legacy" : "-nft");
}

bool IsOfIptables(const nft::ForeignChain& chain) {
  return (chain.family == "ip" || chain.family == "ip6") &&
         (chain.table == "filter" || chain.table == "nat" || chain.table == "mangle");
}

IptablesRead ReadIptables(const std::vector<nft::ForeignChain>& chains,
                          const std::function<bool(const nft::ForeignChain&)>& wanted,
                          const std::stop_token& stop) {
  IptablesRead read;
  for (const IptablesFlavour& flavour : kIptablesFlavours) {
    std::string where = "nf_tables has a table filter, nat or mangle";
    if (flavour.legacy) {
      const absl::StatusOr<std::vector<std::string>> tables = LegacyTables(flavour.family);
      if (!tables.ok()) {
        read.unread.push_back(absl::StrCat("rules of ", flavour.ToString(), ": ",
                                           std::string(tables.status().message()),
                                           "; must run as root"));
        continue;
      }
      if (tables->empty()) continue;
      where = "the kernel has the tables " + absl::StrJoin(*tables, ", ");
    } else {
      const std::string family = flavour.family == Family::kIpv4 ? "ip" : "ip6";
      const auto counts = [&](const nft::ForeignChain& chain) {
        return chain.family == family && IsOfIptables(chain) && wanted(chain);
      };
      if (std::none_of(chains.begin(), chains.end(), counts)) continue;
    }
    const std::string name = flavour.ToString() + "-save";
    const std::optional<std::string> program = FindProgram(name);
    if (!program) {
      read.unread.push_back(
          absl::StrCat("rules of ", flavour.ToString(), ": ", where, ", but ", name, " not found"));
      continue;
    }
    absl::StatusOr<IptablesSave> save = Save(*program, stop);
    if (!save.ok()) {
      read.unread.push_back(absl::StrCat("rules of ", flavour.ToString(), ": ",
                                         std::string(save.status().message())));
      continue;
    }
    for (const std::string& table : save->incompatible) {
      read.unread.push_back(absl::StrCat("table ", table, " of ", flavour.ToString(),
                                         ": contains rules that iptables does not support"));
    }
    read.found.push_back({flavour, *std::move(save)});
  }
  return read;
}

absl::Status RestoreIptables(const IptablesFlavour& flavour, const std::string& text,
                             const std::stop_token& stop) {
  const std::string name = flavour.ToString() + "-restore";
  const std::optional<std::string> program = FindProgram(name);
  if (!program) return absl::NotFoundError(absl::StrCat(name, " not found"));
  return RunProgram({*program, "-w", "5", "--noflush"}, text, stop).status();
}

}  // namespace svcmap::api
