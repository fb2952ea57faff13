#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/quote.h"
#include "api/migration/node_report.h"
#include "api/preflight/preflight.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxNamed = 3;  // Interfaces named in a warning; the others are counted.

using Warnings = std::vector<Warning>;

void JudgeForwarding(const Facts& facts, Warnings& warnings) {
  if (facts.ip_forward == 0) {
    warnings.push_back(
        {"net.ipv4.ip_forward is 0: IPv4 connections of pods and of clients outside "
         "are not forwarded",
         "sysctl -w net.ipv4.ip_forward=1"});
  }
  if (facts.ipv6_in_use && facts.ipv6_forwarding == 0) {
    // Forwarding makes an interface deaf to router advertisements, unless its accept_ra is 2.
    warnings.push_back(
        {"net.ipv6.conf.all.forwarding is 0: IPv6 connections of pods and of "
         "clients outside are not forwarded",
         "sysctl -w net.ipv6.conf.all.forwarding=1 (before that accept_ra=2 on "
         "interfaces whose routes come from router advertisements)"});
  }
}

// "a", "a and b", "a, b, c and 7 others"
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
                    ": pods on one bridge (", Listed(names),
                    ") answer each other past the translation, and their connections to Services "
                    "hang"),
       value ? set : absl::StrCat("modprobe br_netfilter && ", set)});
}

void JudgeBridges(const Facts& facts, Warnings& warnings) {
  std::vector<std::string> ipv4, ipv6;  // Bridges whose packets the hooks see only by the sysctl.
  for (const nft::Bridge& bridge : facts.bridges) {
    if (!bridge.calls_iptables) ipv4.push_back(Escape(bridge.name));
    if (!bridge.calls_ip6tables && facts.ipv6_in_use) ipv6.push_back(Escape(bridge.name));
  }
  JudgeBridges(ipv4, "bridge-nf-call-iptables", facts.bridge_iptables, warnings);
  JudgeBridges(ipv6, "bridge-nf-call-ip6tables", facts.bridge_ip6tables, warnings);
}

// The larger of an interface's own value and that of "all" counts: 0 no check, 1 strict, 2 loose.
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
      "packets are dropped that come in elsewhere than their answers would go out, such as those "
      "of node port clients behind a second uplink";
  if (floor == 1 || strict.size() == 1) {
    std::string name = floor == 1 ? "all" : strict.front();
    std::replace(name.begin(), name.end(), '.', '/');  // sysctl(8) wants eth0.7 as eth0/7.
    warnings.push_back({absl::StrCat("net.ipv4.conf.", name, ".rp_filter is 1 (strict): ", kEffect),
                        absl::StrCat("sysctl -w net.ipv4.conf.", name, ".rp_filter=2")});
    return;
  }
  warnings.push_back(
      {absl::StrCat("net.ipv4.conf.*.rp_filter is 1 (strict) on ", Listed(strict), ": ", kEffect),
       "sysctl -w net.ipv4.conf.INTERFACE.rp_filter=2 for those that such packets reach"});
}

bool IsIp(const nft::ForeignChain& chain) {
  return chain.family == "ip" || chain.family == "ip6" || chain.family == "inet";
}

bool IsOurs(const nft::ForeignChain& chain) {
  return chain.table == proxy::kTableName && (chain.family == "ip" || chain.family == "ip6");
}

// Another table's accept cannot overrule a drop: only a rule in that very chain helps. What a
// bridge table drops never came to a route.
void JudgeForwardChains(const Facts& facts, Warnings& warnings) {
  for (const nft::ForeignChain& chain : facts.chains) {
    if (!chain.base || chain.base->hook != "forward" || !chain.base->policy_drop || !IsIp(chain) ||
        IsOurs(chain)) {
      continue;
    }
    const std::string table = absl::StrCat(chain.family, " ", Escape(chain.table));
    const std::string name = Escape(chain.name);
    warnings.push_back(
        {absl::StrCat("chain ", name, " of table ", table,
                      " drops by default what is forwarded: connections to Services get through "
                      "only if a rule in it accepts them"),
         absl::StrCat("nft insert rule ", table, " ", name, " ct status dnat accept"),
         absl::StrCat(table, " ", name)});
  }
}

void JudgeLegacy(std::optional<bool> filter_in_use, const std::string& program,
                 Warnings& warnings) {
  if (!filter_in_use) {
    warnings.push_back(
        {absl::StrCat("whether table filter of ", program,
                      " is in use was not looked at, as only root may: if the policy of its "
                      "FORWARD chain is DROP, connections to Services get through only if a rule "
                      "accepts them"),
         absl::StrCat("look as root with ", program, " -S FORWARD"), NodeReport::kLegacyFilter});
    return;
  }
  if (!*filter_in_use) return;
  warnings.push_back(
      {absl::StrCat("table filter of ", program,
                    " is in use, and the policy of its FORWARD chain cannot be read here: if it "
                    "is DROP, connections to Services get through only if a rule accepts them"),
       absl::StrCat("look with ", program, " -S FORWARD; allow with ", program,
                    " -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT"),
       NodeReport::kLegacyFilter});
}

void JudgeOtherProxies(const Facts& facts, Warnings& warnings) {
  std::set<std::string> seen;
  for (const nft::ForeignChain& chain : facts.chains) {
    if (!IsIp(chain)) continue;
    if (chain.table == "kube-proxy") {
      seen.insert(absl::StrCat("table ", chain.family, " kube-proxy is there"));
    } else if (chain.table == "nat" && chain.name == "KUBE-SERVICES") {
      seen.insert(absl::StrCat("table ", chain.family, " nat has a chain KUBE-SERVICES"));
    }
  }
  for (const std::string& sign : seen) {
    warnings.push_back({absl::StrCat(sign,
                                     ": kube-proxy, or what it left behind, translates "
                                     "Service addresses beside svcmap"),
                        "when kube-proxy does not run here any more, start svcmapd with "
                        "--remove-kube-proxy or run kube-proxy --cleanup",
                        NodeReport::kOtherProxy});
  }
}

void JudgeConntrack(const Facts& facts, Warnings& warnings) {
  if (facts.conntrack_max) return;
  warnings.push_back(
      {"net.netfilter.nf_conntrack_max is missing: without connection tracking no "
       "address is translated",
       "modprobe nf_conntrack"});
}

std::string FamiliesText(const std::set<Family>& families) {
  return absl::StrJoin(families, " and ",
                       [](std::string* out, Family family) { out->append(FamilyName(family)); });
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
    warnings.push_back({absl::StrCat("a part of the node was not looked at: ", reason),
                        "none needed if Services work; nft list ruleset and ip link show it"});
  }
  return warnings;
}

absl::Status LackStatus(std::span<const nft::Lack> lacks) {
  if (lacks.empty()) return absl::OkStatus();
  struct Entry {
    const nft::Lack* lack;
    std::set<Family> families;
  };
  std::vector<Entry> entries;  // In the order of `lacks`, both families of one feature in one.
  std::vector<std::string> modules;
  for (const nft::Lack& lack : lacks) {
    const auto same = [&](const Entry& entry) {
      return entry.lack->feature == lack.feature && entry.lack->option == lack.option;
    };
    auto entry = std::find_if(entries.begin(), entries.end(), same);
    if (entry == entries.end()) entry = entries.insert(entries.end(), {&lack, {}});
    entry->families.insert(lack.family);
    const bool named = std::find(modules.begin(), modules.end(), lack.module) != modules.end();
    if (!lack.module.empty() && !named) modules.push_back(lack.module);
  }
  const std::string list = absl::StrJoin(entries, ", ", [](std::string* out, const Entry& entry) {
    const char* error = strerrorname_np(entry.lack->error);
    absl::StrAppend(out, entry.lack->feature, " for ", FamiliesText(entry.families), " (",
                    entry.lack->option, entry.lack->option.empty() ? "" : ", ",
                    error == nullptr ? std::to_string(entry.lack->error) : error, ")");
  });
  const std::string remedy =
      modules.empty() ? "run a newer kernel"
                      : absl::StrCat("modprobe -a ", absl::StrJoin(modules, " "),
                                     ", or a kernel that is built with the options named");
  return absl::FailedPreconditionError(
      absl::StrCat("the kernel lacks what the rules need: ", list, "; remedy: ", remedy));
}

}  // namespace svcmap::api
