#include "api/preflight/preflight.h"

#include <sys/utsname.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/process/directory.h"

namespace svcmap::api {
namespace {

std::optional<int> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

// Returns whether the file contains the word, or nullopt if the file exists but cannot be opened.
std::optional<bool> HasWord(const std::string& path, const std::string& wanted) {
  errno = 0;
  std::ifstream file(path);
  if (!file.is_open() && errno != ENOENT) return std::nullopt;
  for (std::string word; file >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

std::map<std::string, int> ReadRpFilters(const std::string& directory) {
  std::map<std::string, int> values;
  for (const std::filesystem::path& path : EntriesOf(directory)) {
    if (const std::optional<int> value = ReadNumber(path / "rp_filter")) {
      values[path.filename()] = *value;
    }
  }
  return values;
}

// Parses /proc/net/if_inet6. A line contains address, interface index, prefix length, scope, flags
// and interface name. Numbers are hexadecimal. Scope 0 is global, including unique local addresses.
bool HasGlobalIpv6(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string address, index, prefix_length, scope, flags, interface;
    words >> address >> index >> prefix_length >> scope >> flags >> interface;
    if (words && scope == "00" && interface != "lo") return true;
  }
  return false;
}

// Returns the error of ProbeTables, with a remedy if the missing capability is the reason.
absl::Status CheckKernel(const nft::TableSpecs& tables) {
  absl::Status status = ProbeTables(tables);
  if (!absl::IsPermissionDenied(status)) return status;
  return absl::PermissionDeniedError(
      absl::StrCat(std::string(status.message()),
                   "; remedy: run as root or with this capability (systemd: AmbientCapabilities="
                   "CAP_NET_ADMIN; pod: securityContext.capabilities.add: [NET_ADMIN])"));
}

}  // namespace

Facts ReadProc(const ProcPaths& paths) {
  Facts facts;
  const std::string net = paths.sysctl + "/net";
  facts.ip_forward = ReadNumber(net + "/ipv4/ip_forward");
  facts.ipv6_forwarding = ReadNumber(net + "/ipv6/conf/all/forwarding");
  facts.bridge_iptables = ReadNumber(net + "/bridge/bridge-nf-call-iptables");
  facts.bridge_ip6tables = ReadNumber(net + "/bridge/bridge-nf-call-ip6tables");
  facts.conntrack_max = ReadNumber(net + "/netfilter/nf_conntrack_max");
  facts.rp_filter = ReadRpFilters(net + "/ipv4/conf");
  facts.ipv6_in_use = HasGlobalIpv6(paths.net + "/if_inet6");
  facts.legacy_iptables_filter = HasWord(paths.net + "/ip_tables_names", "filter");
  facts.legacy_ip6tables_filter = HasWord(paths.net + "/ip6_tables_names", "filter");
  return facts;
}

KernelFacts ReadKernelFacts(const ProcPaths& paths) {
  utsname names = {};
  uname(&names);
  return {names.release, ReadNumber(paths.sysctl + "/kernel/modules_disabled") == 1};
}

Facts ReadFacts() {
  Facts facts = ReadProc();
  if (absl::StatusOr<std::vector<nft::Bridge>> bridges = nft::ReadBridges(); bridges.ok()) {
    facts.bridges = *std::move(bridges);
  } else {
    facts.unread.emplace_back(bridges.status().message());
  }
  if (absl::StatusOr<std::vector<nft::ForeignChain>> chains = nft::ReadChains(); chains.ok()) {
    facts.chains = *std::move(chains);
  } else {
    facts.unread.emplace_back(chains.status().message());
  }
  return facts;
}

absl::Status ProbeTables(const nft::TableSpecs& tables) {
  const absl::StatusOr<std::vector<nft::MissingFeature>> missing_features =
      nft::FindMissingFeatures(tables);
  return missing_features.ok() ? MissingFeaturesStatus(*missing_features, ReadKernelFacts())
                               : missing_features.status();
}

absl::StatusOr<std::vector<Warning>> Preflight(const nft::TableSpecs& tables) {
  // CheckKernel runs first, because CheckKernel makes the kernel load modules that provide some
  // sysctls.
  if (const absl::Status status = CheckKernel(tables); !status.ok()) return status;
  return Judge(ReadFacts());
}

NodeReport ReportNode(const nft::TableSpecs& tables) {
  NodeReport report;
  report.fatal = std::string(CheckKernel(tables).message());
  Facts facts = ReadFacts();
  report.warnings = Judge(facts);
  report.chains = std::move(facts.chains);
  return report;
}

}  // namespace svcmap::api
