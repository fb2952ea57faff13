#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/quote.h"
#include "api/migration/node_report.h"
#include "api/preflight/preflight.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {
namespace {

// Maximum number of interfaces listed in a warning. Further interfaces are only counted.
constexpr size_t kMaxNamed = 3;

// Oldest kernel that passes the tests in tests/kernels. No feature of svcmap's tables needs a newer
// one.
constexpr std::pair kOldestKernel(5, 10);

using Warnings = std::vector<Warning>;

void JudgeForwarding(const Facts& facts, Warnings& warnings) {
  if (facts.ip_forward == 0) {
    warnings.push_back(
        {"net.ipv4.ip_forward is 0: IPv4 packets from pods and from external clients are not "
         "forwarded",
         "sysctl -w net.ipv4.ip_forward=1"});
  }
  if (facts.ipv6_in_use && facts.ipv6_forwarding == 0) {
    // With forwarding enabled, an interface ignores router advertisements unless accept_ra is 2.
    warnings.push_back(
        {"net.ipv6.conf.all.forwarding is 0: IPv6 packets from pods and from external clients are "
         "not forwarded",
         "sysctl -w net.ipv6.conf.all.forwarding=1 (first set accept_ra=2 on interfaces that get "
         "their routes from router advertisements)"});
  }
}

// Returns "a", "a and b", or "a, b, c and 7 others".
std::string Listed(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  const size_t named = names.size() <= kMaxNamed ? names.size() - 1 : kMaxNamed;
  const std::string last =
      names.size() <= kMaxNamed ? names.back() : absl::StrCat(names.size() - kMaxNamed, " others");
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + named, ", "), " and ", last);
}

void JudgeBridges(const std::vector<std::string>& names, const char* key, std::optional<int> value,
                  Warnings& warnings) {
  if (names.empty() || (value && *value != 0)) return;
  const std::string sysctl = absl::StrCat("net.bridge.", key);
  const std::string set = absl::StrCat("sysctl -w ", sysctl, "=1");
  warnings.push_back(
      {absl::StrCat(sysctl, value ? " is 0" : " is missing (br_netfilter is not loaded)",
                    ": replies between pods on the same bridge (", Listed(names),
                    ") bypass address translation, so their connections to Services time out"),
       value ? set : absl::StrCat("modprobe br_netfilter && ", set)});
}

void JudgeBridges(const Facts& facts, Warnings& warnings) {
  // Bridges whose packets traverse the netfilter hooks only if bridge-nf-call-iptables or
  // bridge-nf-call-ip6tables is set.
  std::vector<std::string> ipv4, ipv6;
  for (const nft::Bridge& bridge : facts.bridges) {
    if (!bridge.calls_iptables) ipv4.push_back(Escape(bridge.name));
    if (!bridge.calls_ip6tables && facts.ipv6_in_use) ipv6.push_back(Escape(bridge.name));
  }
  JudgeBridges(ipv4, "bridge-nf-call-iptables", facts.bridge_iptables, warnings);
  JudgeBridges(ipv6, "bridge-nf-call-ip6tables", facts.bridge_ip6tables, warnings);
}

// The kernel uses the maximum of the interface's value and the value of "all". The values mean off
// (0), strict (1) and loose (2).
void JudgeRpFilter(const Facts& facts, Warnings& warnings) {
  const auto all = facts.rp_filter.find("all");
  const int floor = all == facts.rp_filter.end() ? 0 : all->second;
  std::vector<std::string> strict;
  for (const auto& [name, value] : facts.rp_filter) {
    if (name == "all" || name == "lo" || std::max(floor, value) != 1) continue;
    strict.push_back(Escape(name));
  }
  if (strict.empty()) return;
  constexpr char kEffect[] =
      "packets are dropped if their replies use a different interface, for example packets from "
      "nodePort clients behind a second uplink";
  if (floor == 1 || strict.size() == 1) {
    std::string name = floor == 1 ? "all" : strict.front();
    std::replace(name.begin(), name.end(), '.', '/');  // sysctl(8) expects eth0.7 as eth0/7.
    warnings.push_back({absl::StrCat("net.ipv4.conf.", name, ".rp_filter is 1 (strict): ", kEffect),
                        absl::StrCat("sysctl -w net.ipv4.conf.", name, ".rp_filter=2")});
    return;
  }
  warnings.push_back(
      {absl::StrCat("net.ipv4.conf.*.rp_filter is 1 (strict) on ", Listed(strict), ": ", kEffect),
       "sysctl -w net.ipv4.conf.INTERFACE.rp_filter=2 for each interface that receives such "
       "packets"});
}

bool IsIp(const nft::ForeignChain& chain) {
  return chain.family == "ip" || chain.family == "ip6" || chain.family == "inet";
}

bool IsOurs(const nft::ForeignChain& chain) {
  return chain.table == proxy::kTableName && (chain.family == "ip" || chain.family == "ip6");
}

// Returns the command that makes a chain accept packets of translated connections. The rule in a
// chain of iptables must have iptables' form, because iptables cannot list other rules.
std::string AcceptCommand(const nft::ForeignChain& chain, const std::string& table,
                          const std::string& name) {
  if (chain.table == "filter" && chain.name == "FORWARD" && chain.family != "inet") {
    return absl::StrCat(chain.family == "ip" ? "iptables" : "ip6tables",
                        "-nft -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT");
  }
  return absl::StrCat("nft insert rule ", table, " ", name, " ct status dnat accept");
}

// An accept verdict in one table does not override a drop in another table, so only the chain that
// drops packets can accept the packets. Bridge tables are ignored, because their packets are not
// routed.
void JudgeForwardChains(const Facts& facts, Warnings& warnings) {
  for (const nft::ForeignChain& chain : facts.chains) {
    if (!chain.base || chain.base->hook != "forward" || !chain.base->policy_drop ||
        chain.base->accepts_translated || !IsIp(chain) || IsOurs(chain)) {
      continue;
    }
    const std::string table = absl::StrCat(chain.family, " ", Escape(chain.table));
    const std::string name = Escape(chain.name);
    warnings.push_back(
        {absl::StrCat("chain ", name, " of table ", table,
                      " drops forwarded packets by default: connections to Services work only if a "
                      "rule in this chain accepts them"),
         AcceptCommand(chain, table, name), absl::StrCat(table, " ", name)});
  }
}

void JudgeLegacy(std::optional<bool> filter_in_use, const std::string& program,
                 Warnings& warnings) {
  if (!filter_in_use) {
    warnings.push_back(
        {absl::StrCat("cannot check table filter of ", program,
                      " without root privileges: if the policy of its FORWARD chain is DROP, "
                      "connections to Services work only if a rule accepts them"),
         absl::StrCat("run ", program, " -S FORWARD as root"), NodeReport::kLegacyFilter});
    return;
  }
  if (!*filter_in_use) return;
  warnings.push_back(
      {absl::StrCat("table filter of ", program,
                    " is in use, and svcmapd cannot read its rules: if the policy of its FORWARD "
                    "chain is DROP, connections to Services work only if a rule accepts them"),
       absl::StrCat("check with ", program, " -S FORWARD; accept with ", program,
                    " -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT"),
       NodeReport::kLegacyFilter});
}

void JudgeOtherProxies(const Facts& facts, Warnings& warnings) {
  std::set<std::string> seen;
  for (const nft::ForeignChain& chain : facts.chains) {
    if (!IsIp(chain)) continue;
    if (chain.table == "kube-proxy") {
      seen.insert(absl::StrCat("table ", chain.family, " kube-proxy exists"));
    } else if (chain.table == "nat" && chain.name == "KUBE-SERVICES") {
      seen.insert(absl::StrCat("table ", chain.family, " nat has a chain KUBE-SERVICES"));
    }
  }
  for (const std::string& sign : seen) {
    warnings.push_back({absl::StrCat(sign,
                                     ": rules of a running or former kube-proxy also translate "
                                     "Service addresses"),
                        "if kube-proxy no longer runs on this node, start svcmapd with "
                        "--remove-kube-proxy or run kube-proxy --cleanup",
                        NodeReport::kOtherProxy});
  }
}

void JudgeConntrack(const Facts& facts, Warnings& warnings) {
  if (facts.conntrack_max) return;
  warnings.push_back(
      {"net.netfilter.nf_conntrack_max is missing: address translation requires connection "
       "tracking",
       "modprobe nf_conntrack"});
}

std::string FamiliesText(const std::set<Family>& families) {
  return absl::StrJoin(families, " and ",
                       [](std::string* out, Family family) { out->append(FamilyName(family)); });
}

// `release` is text such as "6.1.0-56-cloud-amd64". Returns true if it is not a version.
bool IsTooOld(const std::string& release) {
  int major = 0, minor = 0;
  return std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2 ||
         std::pair(major, minor) < kOldestKernel;
}

// Returns "CONFIG_NFT_MASQ, ENOENT" or "EINVAL".
std::string Details(const nft::MissingFeature& missing) {
  const char* error = strerrorname_np(missing.error);
  return absl::StrCat(missing.option, missing.option.empty() ? "" : ", ",
                      error == nullptr ? std::to_string(missing.error) : error);
}

std::string Remedy(std::span<const nft::MissingFeature> missing_features,
                   const KernelFacts& kernel) {
  bool too_old = false;
  std::vector<std::string> modules;
  bool has_option = false;
  for (const nft::MissingFeature& missing : missing_features) {
    too_old |= missing.option.empty() && IsTooOld(kernel.release);
    has_option |= !missing.option.empty();
    const bool named = std::find(modules.begin(), modules.end(), missing.module) != modules.end();
    if (!missing.module.empty() && !named) modules.push_back(missing.module);
  }
  const std::string names = absl::StrJoin(modules, " ");
  if (too_old) {
    return absl::StrCat("use Linux ", kOldestKernel.first, ".", kOldestKernel.second,
                        " or later, this node runs Linux ", Escape(kernel.release));
  }
  if (!modules.empty() && kernel.modules_disabled) {
    return absl::StrCat("kernel.modules_disabled is 1, so add the modules ", names,
                        " to /etc/modules-load.d and reboot, or use a kernel with the listed "
                        "options");
  }
  if (!modules.empty()) {
    return absl::StrCat("modprobe -a ", names, ", or use a kernel with the listed options");
  }
  if (has_option) return "use a kernel with the listed options";
  return absl::StrCat("Linux ", Escape(kernel.release),
                      " is new enough, so report this error to the svcmap project, and use a "
                      "kernel of the table in docs/install.md (tested kernels)");
}

}  // namespace

std::vector<Warning> Judge(const Facts& facts) {
  Warnings warnings;
  JudgeForwarding(facts, warnings);
  JudgeConntrack(facts, warnings);
  JudgeBridges(facts, warnings);
  JudgeRpFilter(facts, warnings);
  JudgeForwardChains(facts, warnings);
  JudgeLegacy(facts.legacy_iptables_filter, "iptables-legacy", warnings);
  JudgeLegacy(facts.legacy_ip6tables_filter, "ip6tables-legacy", warnings);
  JudgeOtherProxies(facts, warnings);
  for (const std::string& reason : facts.unread) {
    warnings.push_back(
        {absl::StrCat("node configuration only partly checked: ", reason),
         "if Services do not work, inspect the output of nft list ruleset and of ip link"});
  }
  return warnings;
}

absl::Status MissingFeaturesStatus(std::span<const nft::MissingFeature> missing_features,
                                   const KernelFacts& kernel) {
  if (missing_features.empty()) return absl::OkStatus();
  struct Entry {
    const nft::MissingFeature* missing;
    std::set<Family> families;
  };
  // Missing features in the order of `missing_features`, with one entry for both IP families.
  std::vector<Entry> entries;
  for (const nft::MissingFeature& missing : missing_features) {
    const auto same = [&](const Entry& entry) {
      return entry.missing->feature == missing.feature && entry.missing->option == missing.option;
    };
    auto entry = std::find_if(entries.begin(), entries.end(), same);
    if (entry == entries.end()) entry = entries.insert(entries.end(), {&missing, {}});
    entry->families.insert(missing.family);
  }
  const std::string list = absl::StrJoin(entries, ", ", [&](std::string* out, const Entry& entry) {
    absl::StrAppend(out, entry.missing->feature, " for ", FamiliesText(entry.families), " (",
                    Details(*entry.missing), ")");
  });
  return absl::FailedPreconditionError(absl::StrCat(
      "missing kernel features: ", list, "; remedy: ", Remedy(missing_features, kernel)));
}

}  // namespace svcmap::api
