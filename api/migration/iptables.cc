#include "api/migration/iptables.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/migration/program.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

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
