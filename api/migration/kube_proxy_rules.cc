#include "api/migration/kube_proxy_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

constexpr std::array<std::string_view, 8> kNames = {
    "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS",      "KUBE-POSTROUTING",
    "KUBE-FORWARD",  "KUBE-MARK-MASQ",         "KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY"};
// Prefixes of chain names with a hash. Kubernetes versions before 1.24 use the prefix KUBE-XLB-.
constexpr std::array<std::string_view, 6> kPrefixes = {"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-",
                                                       "KUBE-FW-",  "KUBE-SEP-", "KUBE-XLB-"};
constexpr char kKubeletFirewall[] = "KUBE-FIREWALL";  // The chain does not drop Service traffic.

// Returns whether `text` has the form of a hash: 16 characters of base32.
bool IsHash(std::string_view text) {
  return text.size() == 16 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= '2' && c <= '7');
         });
}

// Returns the prefix of a chain name with a hash, or "" for other names.
std::string_view PrefixOf(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix) && IsHash(name.substr(prefix.size()))) return prefix;
  }
  return "";
}

std::set<std::string_view> BuiltInChains(const IptablesTable& table) {
  std::set<std::string_view> names;
  for (const IptablesChain& chain : table.chains) {
    if (chain.built_in()) names.insert(chain.name);
  }
  return names;
}

// Returns `from` and all chains that are reachable from `from`, except chains of kube-proxy and
// kubelet.
std::set<std::string_view> ReachedChains(const IptablesTable& table, std::string_view from) {
  std::map<std::string_view, std::vector<std::string_view>> targets;
  for (const IptablesRule& rule : table.rules) {
    if (!IsKubeProxyChain(rule.chain())) targets[rule.chain()].push_back(rule.target());
  }
  std::set<std::string_view> reached = {from};
  for (std::vector<std::string_view> next = {from}; !next.empty();) {
    const std::string_view chain = next.back();
    next.pop_back();
    for (const std::string_view target : targets[chain]) {
      if (target != kKubeletFirewall && !IsKubeProxyChain(target) &&
          reached.insert(target).second) {
        next.push_back(target);
      }
    }
  }
  return reached;
}

bool HasRules(const IptablesTable& table, std::string_view chain) {
  return std::ranges::find(table.rules, chain, &IptablesRule::chain) != table.rules.end();
}

class TablePlan {
 public:
  TablePlan(const IptablesTable& table, std::vector<std::string>& kept)
      : table_(table), kept_(kept), built_in_(BuiltInChains(table)) {}

  RemovalOfTable Plan() && {
    KeepRulesOfOthers();
    if (table_.name == "filter") {
      KeepWhereDropped("KUBE-FORWARD", "FORWARD", "Service traffic");
      KeepWhereDropped("KUBE-NODEPORTS", "INPUT", "load balancers' health checks");
    }
    KeepWhatTheyUse();
    RemovalOfTable removal{.table = table_.name, .jumps = {}, .chains = {}};
    for (const IptablesChain& chain : table_.chains) {
      if (IsKubeProxyChain(chain.name) && !stays_.contains(chain.name)) {
        removal.chains.push_back(chain.name);
      }
    }
    for (const IptablesRule& rule : table_.rules) {
      if (built_in_.contains(rule.chain()) && IsKubeProxyChain(rule.target()) &&
          !stays_.contains(rule.target())) {
        removal.jumps.push_back(rule.text);
      }
    }
    return removal;
  }

 private:
  void KeepRulesOfOthers() {
    for (const IptablesRule& rule : table_.rules) {
      if (!IsKubeProxyChain(rule.target()) || IsKubeProxyChain(rule.chain()) ||
          built_in_.contains(rule.chain()) || !stays_.insert(rule.target()).second) {
        continue;
      }
      kept_.push_back(absl::StrCat(rule.target(), " in table ", table_.name, ", because chain ",
                                   rule.chain(), " jumps to it"));
    }
  }

  void KeepWhereDropped(const char* chain, const char* from, const char* what) {
    if (!HasRules(table_, chain)) return;
    const std::string drops = DropsText(table_, from);
    if (drops.empty()) return;
    stays_.insert(chain);
    kept_.push_back(absl::StrCat(chain, " in table ", table_.name, ", because ", from, " ", drops,
                                 " and this chain accepts ", what));
  }

  void KeepWhatTheyUse() {
    for (size_t before = 0; before != stays_.size();) {
      before = stays_.size();
      for (const IptablesRule& rule : table_.rules) {
        if (stays_.contains(rule.chain()) && IsKubeProxyChain(rule.target())) {
          stays_.insert(rule.target());
        }
      }
    }
  }

  const IptablesTable& table_;
  std::vector<std::string>& kept_;
  const std::set<std::string_view> built_in_;
  std::set<std::string> stays_;
};

// Returns the table nat, or an empty table if `save` does not contain it.
const IptablesTable& Nat(const IptablesSave& save) {
  static const IptablesTable none;
  const auto nat = std::ranges::find(save.tables, "nat", &IptablesTable::name);
  return nat == save.tables.end() ? none : *nat;
}

bool Covers(const std::string& prefix, const std::set<std::string>& addresses) {
  const std::optional<IpPrefix> covers = IpPrefix::Parse(prefix);
  if (!covers) return false;
  return std::any_of(addresses.begin(), addresses.end(), [&](const std::string& address) {
    const std::optional<IpPrefix> one = IpPrefix::Parse(address);
    return one && one->address().family() == covers->address().family() &&
           covers->Contains(one->address());
  });
}

}  // namespace

bool IsKubeProxyChain(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || !PrefixOf(name).empty();
}

std::string DropsText(const IptablesTable& table, std::string_view chain) {
  if (DropsByDefault(table, chain)) return "drops by default";
  const std::set<std::string_view> reached = ReachedChains(table, chain);
  for (const IptablesRule& rule : table.rules) {
    if (rule.drops() && reached.contains(rule.chain())) {
      return absl::StrCat("may drop packets (", rule.text, ")");
    }
  }
  return "";
}

std::string Removal::RestoreText() const {
  std::string text;
  for (const RemovalOfTable& table : tables) {
    absl::StrAppend(&text, "*", table.table, "\n");
    for (const std::string& chain : table.chains) absl::StrAppend(&text, ":", chain, " - [0:0]\n");
    for (const std::string& jump : table.jumps) absl::StrAppend(&text, "-D", jump.substr(2), "\n");
    for (const std::string& chain : table.chains) absl::StrAppend(&text, "-X ", chain, "\n");
    text += "COMMIT\n";
  }
  return text;
}

Removal PlanRemoval(const IptablesSave& save) {
  Removal removal;
  for (const IptablesTable& table : save.tables) {
    RemovalOfTable plan = TablePlan(table, removal.kept).Plan();
    if (!plan.chains.empty() || !plan.jumps.empty()) removal.tables.push_back(std::move(plan));
  }
  return removal;
}

std::string ChainsText(const std::vector<std::string>& chains) {
  std::vector<std::string> parts;
  std::map<std::string_view, int> counts;
  for (const std::string& chain : chains) {
    if (const std::string_view prefix = PrefixOf(chain); !prefix.empty()) {
      ++counts[prefix];
    } else {
      parts.push_back(chain);
    }
  }
  for (const std::string_view prefix : kPrefixes) {
    if (counts.contains(prefix)) {
      parts.push_back(absl::StrCat(counts[prefix], " ", std::string(prefix), "*"));
    }
  }
  return absl::StrJoin(parts, ", ");
}

ServedPlaces PlacesServed(const IptablesSave& save) {
  ServedPlaces places;
  for (const IptablesRule& rule : Nat(save).rules) {
    if (rule.chain() == "KUBE-SERVICES" && !rule.value("-d").empty()) {
      places.addresses.insert(rule.value("-d"));
    } else if (rule.chain() == "KUBE-NODEPORTS" && !rule.value("--dport").empty()) {
      places.node_ports.insert(rule.value("--dport"));
    }
  }
  return places;
}

std::vector<IpAddress> ClusterIps(const IptablesSave& save) {
  std::vector<IpAddress> addresses;
  for (const IptablesRule& rule : Nat(save).rules) {
    // The comment of the rule, such as "shop/web:http cluster IP".
    const bool at_cluster_ip = std::ranges::any_of(
        rule.words, [](const std::string& word) { return word.ends_with(" cluster IP"); });
    if (rule.chain() != "KUBE-SERVICES" || !at_cluster_ip) continue;
    const std::optional<IpPrefix> destination = IpPrefix::Parse(rule.value("-d"));
    if (destination) addresses.push_back(destination->address());
  }
  return addresses;
}

std::vector<std::string> ForeignTranslations(const IptablesSave& save, const ServedPlaces& places) {
  std::vector<std::string> rules;
  for (const IptablesRule& rule : Nat(save).rules) {
    const std::string& target = rule.target();
    if (IsKubeProxyChain(rule.chain()) || (target != "DNAT" && target != "REDIRECT")) continue;
    const std::string& to = rule.value("-d");
    const bool at_node_port = places.node_ports.contains(rule.value("--dport"));
    if (to.empty() ? at_node_port : Covers(to, places.addresses)) rules.push_back(rule.text);
  }
  return rules;
}

}  // namespace svcmap::api
