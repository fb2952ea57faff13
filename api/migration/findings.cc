#include "api/migration/findings.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/quote.h"
#include "api/migration/kube_proxy_process.h"
#include "api/migration/kube_proxy_rules.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {
namespace {

// Priority of svcmap's nat chains at prerouting and output (S-131, S-132).
constexpr int kOurPriority = -100;

constexpr char kStale[] =
    "the rules are no longer updated: connections to Services that were deleted, or that svcmap "
    "does not manage, may reach endpoints that no longer exist";
constexpr char kRemove[] =
    "start svcmapd with --remove-kube-proxy: it removes the rules after it has programmed all "
    "Services; existing connections are unaffected";

// A service proxy that processes packets before svcmap does, and the interface that indicates this
// proxy.
struct KnownOwner {
  const char* interface;
  const char* name;
  const char* remedy;
};
constexpr KnownOwner kOwners[] = {
    {"cilium_host", "Cilium",
     "run cilium-dbg status | grep KubeProxyReplacement; if KubeProxyReplacement is enabled, "
     "disable it, because svcmap has no effect until then"},
    {"bpfin.cali", "Calico's eBPF data plane",
     "set bpfEnabled to false in the FelixConfiguration, or do not use svcmap on this node"},
    {"kube-dummy-if", "kube-router",
     "run kube-router with --run-service-proxy=false, then kube-router --cleanup-config"},
};

// Name of the tables of Calico's nftables data plane.
constexpr char kCalicoTable[] = "calico";

bool IsInet(const nft::ForeignChain& chain) {
  return chain.family == "ip" || chain.family == "ip6" || chain.family == "inet";
}

std::string PlacesText(const ServedPlaces& places) {
  const size_t addresses = places.addresses.size(), ports = places.node_ports.size();
  return absl::StrCat(addresses, addresses == 1 ? " address" : " addresses", " and ", ports,
                      ports == 1 ? " nodePort" : " nodePorts");
}

class MigrationJudge {
 public:
  explicit MigrationJudge(const MigrationFacts& facts) : facts_(facts) {}

  std::vector<MigrationFinding> Judge() && {
    Kernel();
    KubeProxy();
    Ipvs();
    Tables();
    for (const IptablesRead::Found& found : facts_.iptables.found) Iptables(found);
    Owners();
    NatChains();
    Networks();
    Node();
    Unread();
    std::stable_partition(findings_.begin(), findings_.end(),
                          [](const MigrationFinding& finding) { return finding.attention; });
    return std::move(findings_);
  }

 private:
  void Attention(std::string what, std::string effect, std::string remedy) {
    findings_.push_back({true, std::move(what), std::move(effect), std::move(remedy)});
  }
  void Note(std::string what, std::string effect, std::string remedy) {
    findings_.push_back({false, std::move(what), std::move(effect), std::move(remedy)});
  }
  bool Runs() const { return !facts_.kube_proxy.empty(); }
  bool HasInterface(const char* name) const {
    const std::vector<std::string>& names = facts_.interfaces;
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  void Kernel() {
    if (!facts_.report || facts_.report->fatal.empty()) return;
    constexpr char kRemedy[] = "; remedy: ";
    const std::string& fatal = facts_.report->fatal;
    const size_t end = fatal.find(kRemedy);
    Attention(fatal.substr(0, end), "svcmapd does not start on this node",
              end == std::string::npos ? "correct the reported error"
                                       : fatal.substr(end + sizeof(kRemedy) - 1));
  }

  void KubeProxy() {
    if (!Runs()) return;
    Note(facts_.kube_proxy,
         "svcmapd can run beside kube-proxy; each connection is translated by the proxy that "
         "created its chains last. kube-proxy uses ports 10249 and 10256 until it exits",
         "start svcmapd, wait until its state is serving (svcmapctl wait), then remove kube-proxy "
         "from this node; see docs/migration.md");
  }

  void Ipvs() {
    if (!HasInterface(kIpvsInterface)) {
      if (!facts_.virtual_servers) return;
      Note("IPVS virtual servers exist that do not belong to kube-proxy (no interface kube-ipvs0)",
           "svcmapd does not modify these virtual servers, even with --remove-kube-proxy",
           "do not run kube-proxy --cleanup on this node, because it removes all IPVS virtual "
           "servers");
      return;
    }
    Attention(absl::StrCat("interface ", kIpvsInterface,
                           " exists: kube-proxy runs or has run in ipvs mode"),
              "the node accepts connections to every Service address on this interface; "
              "--remove-kube-proxy removes nothing while the interface exists",
              "when svcmapd serves traffic and kube-proxy no longer runs on this node, run "
              "kube-proxy --cleanup; this command removes all IPVS virtual servers, including "
              "virtual servers of other programs such as keepalived");
  }

  // Reports rules of kube-proxy in nf_tables or iptables.
  void Rules(const std::string& what) {
    if (Runs()) {
      Note(what, "kube-proxy keeps the rules up to date while it runs",
           "after kube-proxy has been removed from this node, remove the rules with svcmapd "
           "--remove-kube-proxy");
    } else {
      Attention(what, kStale, kRemove);
    }
  }

  void Tables() {
    if (!facts_.report) return;
    std::set<std::string> tables;
    bool calico = false;
    for (const nft::ForeignChain& chain : facts_.report->chains) {
      if (!IsInet(chain)) continue;
      if (chain.table == kKubeProxyTable) {
        tables.insert(absl::StrCat("table ", chain.family, " ", chain.table));
      }
      calico |= chain.table == kCalicoTable;
    }
    if (tables.empty()) return;
    Rules(absl::StrCat("rules of kube-proxy in nftables mode: ", absl::StrJoin(tables, " and ")));
    if (!calico) return;
    Note("Calico's nftables data plane is in use",
         "if nftablesMode of the FelixConfiguration is Auto, Calico restarts its data plane with "
         "iptables after the rules of kube-proxy have been removed",
         "before you remove kube-proxy, set nftablesMode to Enabled");
  }

  void Iptables(const IptablesRead::Found& found) {
    const std::string flavour = found.flavour.ToString();
    const std::string program = found.flavour.family == Family::kIpv4 ? "iptables" : "ip6tables";
    const std::string command = program + (found.flavour.legacy ? "-legacy" : "-nft");
    const Removal removal = PlanRemoval(found.save);
    const ServedPlaces places = PlacesServed(found.save);
    std::vector<std::string> chains;
    for (const RemovalOfTable& table : removal.tables) {
      chains.push_back(absl::StrCat("table ", table.table, ": ", ChainsText(table.chains)));
    }
    if (!chains.empty()) {
      Rules(absl::StrCat("rules of kube-proxy in ", flavour, ", for ", PlacesText(places), "; ",
                         absl::StrJoin(chains, "; ")));
    }
    for (const std::string& kept : removal.kept) {
      Attention(absl::StrCat(flavour, ": kube-proxy's chain must be kept: ", kept),
                "--remove-kube-proxy keeps this chain; kube-proxy --cleanup removes it, which may "
                "break connections that depend on it",
                absl::StrCat("add your own rule, such as ", command,
                             " -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT, then remove the "
                             "chain and the jump to it; see docs/migration.md"));
    }
    for (const IptablesTable& table : found.save.tables) {
      if (table.name == "filter") Filter(found, table, command, !removal.kept.empty());
    }
    for (const std::string& rule : ForeignTranslations(found.save, places)) {
      Attention(absl::StrCat(flavour,
                             ": a rule that does not belong to kube-proxy translates an address or "
                             "nodePort of a Service: ",
                             rule),
                "if svcmapd starts later, its chains run before the chains of iptables, so this "
                "rule has no effect",
                "use another address or port for the Service or for the rule");
    }
  }

  // Reports a FORWARD chain that drops packets and has no KUBE-FORWARD chain. An iptables-nft chain
  // with policy DROP is already among the warnings of the preflight report.
  void Forward(const IptablesRead::Found& found, const IptablesTable& table,
               const std::string& command) {
    const std::string drops = DropsText(table, "FORWARD");
    if (drops.empty()) return;
    const std::string what = absl::StrCat("FORWARD of ", found.flavour.ToString(), " ", drops);
    const std::string remedy =
        absl::StrCat(command, " -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT");
    if (!DropsByDefault(table, "FORWARD")) {
      Note(what, "connections to Services that match such a rule are dropped", remedy);
    } else if (found.flavour.legacy) {
      Attention(what, "connections to Services are dropped unless a rule in FORWARD accepts them",
                remedy);
    }
  }

  void Filter(const IptablesRead::Found& found, const IptablesTable& table,
              const std::string& command, bool kept) {
    const std::string flavour = found.flavour.ToString();
    if (!kept && !AcceptsTranslated(table, "FORWARD")) Forward(found, table, command);
    if (!found.flavour.legacy && AcceptsTranslated(table, "FORWARD")) {
      accepting_.insert(
          absl::StrCat(found.flavour.family == Family::kIpv4 ? "ip" : "ip6", " filter FORWARD"));
    }
    if (const std::string drops = DropsText(table, "INPUT"); !drops.empty()) {
      Note(absl::StrCat("INPUT of ", flavour, " ", drops),
           "load balancers can reach healthCheckNodePorts and port 10256 only if a rule in INPUT "
           "accepts their connections",
           absl::StrCat(command, " -I INPUT -p tcp --dport PORT -j ACCEPT for each port"));
    }
  }

  void Owners() {
    for (const KnownOwner& owner : kOwners) {
      if (!HasInterface(owner.interface)) continue;
      Attention(absl::StrCat("interface ", owner.interface, " belongs to ", owner.name),
                absl::StrCat("if ", owner.name,
                             " handles Services, it processes packets before svcmap's rules do"),
                owner.remedy);
    }
  }

  // Reports base chains that may translate destinations. Iptables() checks the rules of iptables
  // chains.
  void NatChains() {
    if (!facts_.report) return;
    for (const nft::ForeignChain& chain : facts_.report->chains) {
      if (!IsInet(chain) || !chain.base || chain.base->type != "nat" || IsOfIptables(chain) ||
          chain.table == kKubeProxyTable || chain.table == proxy::kTableName ||
          (chain.base->hook != "prerouting" && chain.base->hook != "output")) {
        continue;
      }
      const std::string what = absl::StrCat(
          "chain ", Escape(chain.name), " of table ", chain.family, " ", Escape(chain.table),
          " may translate destinations, with priority ", chain.base->priority);
      if (chain.base->priority < kOurPriority) {
        Attention(what,
                  "the chain runs before svcmap's chains; svcmap ignores connections that the "
                  "chain translates",
                  "make sure that the chain does not match addresses and nodePorts of Services");
      } else {
        Note(what,
             "svcmap's chains run first; the chain does not apply to connections that svcmap "
             "translates",
             "none, unless the chain must match addresses of Services");
      }
    }
  }

  // Reports networks between the lowest and the highest clusterIP of kube-proxy's iptables rules.
  // The ServiceCIDRs are not known before svcmap receives them.
  void Networks() {
    std::vector<IpAddress> cluster_ips;
    for (const IptablesRead::Found& found : facts_.iptables.found) {
      for (const IpAddress& address : ClusterIps(found.save)) cluster_ips.push_back(address);
    }
    for (const Family family : kFamilies) {
      std::vector<IpAddress> of_family;
      std::copy_if(cluster_ips.begin(), cluster_ips.end(), std::back_inserter(of_family),
                   [family](const IpAddress& address) { return address.family() == family; });
      if (of_family.empty()) continue;
      const auto [low, high] = std::minmax_element(of_family.begin(), of_family.end());
      std::set<std::string> reported;
      for (const InterfaceAddress& address : facts_.addresses) {
        const IpPrefix network = address.network();
        if (network.family() != family || address.IsSingle() || address.address.IsLoopback() ||
            address.address.IsLinkLocal() || network.address() > *high || network.Last() < *low ||
            !reported.insert(network.ToString()).second) {
          continue;
        }
        Attention(absl::StrCat("network ", network.ToString(), " of interface ",
                               Escape(address.interface),
                               " overlaps the clusterIPs in kube-proxy's iptables rules, which "
                               "range from ",
                               low->ToString(), " to ", high->ToString()),
                  "svcmap drops packets to all addresses of a ServiceCIDR that are not clusterIPs; "
                  "kube-proxy's iptables mode does not",
                  "use a network outside of the ServiceCIDRs, or ServiceCIDRs that do not contain "
                  "addresses of hosts");
      }
    }
    for (const std::string& finding : facts_.agent_findings) {
      Attention(finding, "the agent of this node reports this finding",
                "change the object or the addresses of the node, until svcmapctl status no longer "
                "prints the finding");
    }
  }

  void Node() {
    if (!facts_.report) return;
    for (const NodeReport::Warning& warning : facts_.report->warnings) {
      if (warning.about == NodeReport::kOtherProxy || warning.about == NodeReport::kLegacyFilter ||
          accepting_.contains(warning.about)) {
        continue;
      }
      Attention(warning.what, "svcmapd starts and logs this warning", warning.remedy);
    }
  }

  void Unread() {
    for (const auto* unread : {&facts_.unread, &facts_.iptables.unread}) {
      for (const std::string& what : *unread) {
        Attention("not checked: " + what, "conflicts may exist that this check cannot detect",
                  "run the check as root with all required programs installed, or check manually");
      }
    }
  }

  const MigrationFacts& facts_;
  std::vector<MigrationFinding> findings_;
  // Chains, such as "ip filter FORWARD", that drop packets by default but accept translated
  // connections.
  std::set<std::string> accepting_;
};

}  // namespace

std::vector<MigrationFinding> JudgeMigration(const MigrationFacts& facts) {
  return MigrationJudge(facts).Judge();
}

}  // namespace svcmap::api
