#include "api/bundle/node_facts.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/check/tracked_entries.h"
#include "api/migration/iptables.h"
#include "api/migration/node_report.h"
#include "api/migration/program.h"
#include "api/process/directory.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLogBytes = 8 << 20;
constexpr size_t kMaxUdpDestinations = 1000;

std::string ReadText(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Runs a program. Returns NotFound if it is not installed.
absl::StatusOr<std::string> Output(std::vector<std::string> argv) {
  const std::optional<std::string> path = FindProgram(argv[0]);
  if (!path) return absl::NotFoundError(argv[0] + " not found");
  argv[0] = *path;
  return RunProgram(argv);
}

// Concatenates the outputs of several commands. Returns the first error if all commands fail.
absl::StatusOr<std::string> Outputs(const std::vector<std::vector<std::string>>& commands) {
  std::string text;
  absl::Status error;
  bool any = false;
  for (const std::vector<std::string>& argv : commands) {
    const absl::StatusOr<std::string> output = Output(argv);
    absl::StrAppend(&text, "# ", absl::StrJoin(argv, " "), "\n",
                    output.ok() ? *output : std::string(output.status().message()) + "\n", "\n");
    any = any || output.ok();
    if (error.ok()) error = output.status();
  }
  if (!any) return error;
  return text;
}

absl::StatusOr<std::string> System() {
  utsname name = {};
  uname(&name);
  std::string text = absl::StrCat("kernel   ", name.sysname, " ", name.release, " ", name.version,
                                  " ", name.machine, "\nhost     ", name.nodename, "\n");
  if (const auto version = Output({"nft", "--version"}); version.ok()) {
    absl::StrAppend(&text, "nft      ", *version);
  }
  return absl::StrCat(text, "\n# /etc/os-release\n", ReadText("/etc/os-release"));
}

// Lists svcmap's tables with all elements.
absl::StatusOr<std::string> SvcmapTables() {
  const absl::StatusOr<std::string> tables = Output({"nft", "list", "tables"});
  if (!tables.ok()) return tables.status();
  std::vector<std::vector<std::string>> commands;
  for (const std::string family : {"ip", "ip6"}) {
    if (tables->find("table " + family + " svcmap\n") != std::string::npos) {
      commands.push_back({"nft", "list", "table", family, "svcmap"});
    }
  }
  if (commands.empty()) return absl::NotFoundError("tables ip svcmap and ip6 svcmap do not exist");
  return Outputs(commands);
}

// "net.ipv4.conf.eth0.rp_filter = 1"
void AppendSysctl(const fs::path& path, std::string& text) {
  std::string value = ReadText(path);
  if (value.empty()) return;
  value.erase(value.find_last_not_of(" \n") + 1);
  std::string name = path.lexically_relative("/proc/sys");
  std::replace(name.begin(), name.end(), '.', '\t');  // Part of the name of an interface.
  std::replace(name.begin(), name.end(), '/', '.');
  std::replace(name.begin(), name.end(), '\t', '/');
  absl::StrAppend(&text, name, " = ", value, "\n");
}

absl::StatusOr<std::string> Sysctls() {
  std::string text;
  const fs::path net = "/proc/sys/net";
  for (const char* name : {"ipv4/ip_forward", "ipv4/ip_local_port_range", "ipv4/ip_nonlocal_bind",
                           "ipv4/ip_local_reserved_ports", "bridge/bridge-nf-call-iptables",
                           "bridge/bridge-nf-call-ip6tables"}) {
    AppendSysctl(net / name, text);
  }
  for (const fs::path& path : EntriesOf(net / "netfilter")) {
    if (path.filename().string().starts_with("nf_conntrack_")) AppendSysctl(path, text);
  }
  for (const char* family : {"ipv4", "ipv6"}) {
    for (const fs::path& directory : EntriesOf(net / family / "conf")) {
      for (const char* name :
           {"forwarding", "rp_filter", "route_localnet", "accept_local", "arp_ignore"}) {
        AppendSysctl(directory / name, text);
      }
    }
  }
  if (text.empty()) return absl::NotFoundError("/proc/sys/net cannot be read");
  return text;
}

absl::StatusOr<std::string> Conntrack() {
  std::string text;
  for (const char* name : {"nf_conntrack_count", "nf_conntrack_max"}) {
    AppendSysctl(fs::path("/proc/sys/net/netfilter") / name, text);
  }
  absl::StrAppend(&text, "\n# /proc/net/stat/nf_conntrack\n",
                  ReadText("/proc/net/stat/nf_conntrack"));
  struct Flows {
    size_t count = 0;
    std::string example;
  };
  std::map<std::string, Flows> flows;
  const auto text_of = [](const nft::FlowEnd& end) { return end.address.WithPort(end.port); };
  const absl::Status listed = ForEachTrackedEntry([&](const TrackedEntry& entry) {
    if (entry.protocol != proxy::Protocol::kUdp) return;
    Flows& same = flows[absl::StrCat(text_of(entry.destination), " -> ", text_of(entry.answers))];
    if (same.count++ == 0) same.example = text_of(entry.client);
  });
  absl::StrAppend(&text,
                  "\n# UDP entries: destination -> address that answers, entries, first client\n");
  if (!listed.ok()) absl::StrAppend(&text, std::string(listed.message()), "\n");
  size_t shown = 0;
  for (const auto& [key, same] : flows) {
    if (++shown > kMaxUdpDestinations) {
      absl::StrAppend(&text, "and ", flows.size() - kMaxUdpDestinations, " more\n");
      break;
    }
    absl::StrAppend(&text, key, "  ", same.count, "  ", same.example, "\n");
  }
  return text;
}

// Reads the rules of the legacy backend. Without nft, also reads the rules of the nf_tables
// backend, which are part of the ruleset otherwise.
absl::StatusOr<std::string> Iptables(const absl::StatusOr<std::string>& node_checks) {
  std::vector<nft::ForeignChain> chains;
  if (!FindProgram("nft") && node_checks.ok()) {
    if (const auto report = ParseNodeReport(*node_checks); report.ok()) chains = report->chains;
  }
  const IptablesRead read = ReadIptables(chains, IsOfIptables);
  std::string text;
  for (const std::string& unread : read.unread) absl::StrAppend(&text, "# ", unread, "\n");
  for (const IptablesRead::Found& found : read.found) {
    absl::StrAppend(&text, "# ", found.flavour.ToString(), "\n");
    for (const IptablesTable& table : found.save.tables) {
      absl::StrAppend(&text, "*", table.name, "\n");
      for (const IptablesChain& chain : table.chains) {
        absl::StrAppend(&text, ":", chain.name, " ", chain.policy, "\n");
      }
      for (const IptablesRule& rule : table.rules) absl::StrAppend(&text, rule.text, "\n");
    }
  }
  return text.empty() ? "# no rules\n" : text;
}

absl::StatusOr<std::string> Log(const std::string& file) {
  if (file.empty()) {
    auto log = Output(
        {"journalctl", "--unit=svcmapd", "--no-pager", "--lines=5000", "--output=short-iso"});
    if (!log.ok()) return Annotate(log.status(), "use --log FILE to include a log file");
    return log;
  }
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return ErrnoStatus(errno, "read " + file);
  const auto size = static_cast<size_t>(stream.tellg());
  stream.seekg(static_cast<std::streamoff>(size > kMaxLogBytes ? size - kMaxLogBytes : 0));
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

std::vector<BundleFile> CollectNodeFacts(const std::string& log_file,
                                         std::vector<MissingPart>& missing) {
  std::vector<BundleFile> files;
  const auto add = [&](const char* name, NamesIn names, absl::StatusOr<std::string> content) {
    if (content.ok()) {
      files.push_back({name, *std::move(content), names});
    } else {
      missing.push_back({name, std::string(content.status().message())});
    }
  };
  add("node/system.txt", NamesIn::kText, System());
  const absl::StatusOr<std::string> node_checks = RunPreflight();
  add("node/preflight.json", NamesIn::kNone, node_checks);
  add("node/sysctls.txt", NamesIn::kNone, Sysctls());
  add("node/ruleset.nft", NamesIn::kQuotes,
      Output({"nft", "--stateless", "--terse", "list", "ruleset"}));
  add("node/svcmap.nft", NamesIn::kQuotes, SvcmapTables());
  add("node/iptables.txt", NamesIn::kQuotes, Iptables(node_checks));
  add("node/conntrack.txt", NamesIn::kNone, Conntrack());
  add("node/network.txt", NamesIn::kNone,
      Outputs({{"ip", "address"},
               {"ip", "-4", "rule"},
               {"ip", "-4", "route", "show", "table", "all"},
               {"ip", "-6", "rule"},
               {"ip", "-6", "route", "show", "table", "all"},
               {"ip", "neighbour"}}));
  add("node/netstat.txt", NamesIn::kNone,
      ReadText("/proc/self/net/snmp") + ReadText("/proc/self/net/netstat"));
  add("node/svcmapd.log", NamesIn::kText, Log(log_file));
  return files;
}

}  // namespace svcmap::api
