#include "api/migration/findings.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/quote.h"
#include "api/migration/kube_proxy_process.h"
#include "api/migration/kube_proxy_rules.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {
namespace {

constexpr int kOurPriority = -100;  // Of nat at prerouting and output (S-131, S-132).

constexpr char kStale[] =
    "they go on translating what they knew last, as nobody changes them any more: Services that "
    "svcmap does not know, and those deleted since, are sent to endpoints that may be gone";
constexpr char kRemove[] =
    "start svcmapd with --remove-kube-proxy: it removes them once it serves everything; "
    "connections go on";

// Who serves Services before any rule of ours sees a packet, by an interface that shows it.
struct KnownOwner {
  const char* interface;
  const char* name;
  const char* remedy;
};
constexpr KnownOwner kOwners[] = {
    {"cilium_host", "Cilium",
     "see whether it does: cilium-dbg status | grep KubeProxyReplacement; if so, svcmap has "
     "nothing to do on this node until that is turned off"},
    {"bpfin.cali", "Calico's eBPF data plane",
     "turn bpfEnabled off in its FelixConfiguration, or leave Services to Calico"},
    {"kube-dummy-if", "kube-router",
     "run kube-router with --run-service-proxy=false, then kube-router --cleanup-config"},
};

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

  std::vector<Finding> Judge() && {
    Kernel();
    KubeProxy();
    Ipvs();
    Tables();
    for (const IptablesRead::Found& found : facts_.iptables.found) Iptables(found);
    Owners();
    NatChains();
    Node();
    Unread();
    std::stable_partition(findings_.begin(), findings_.end(),
                          [](const Finding& finding) { return finding.attention; });
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
    Attention(
        fatal.substr(0, end), "svcmapd does not start here",
        end == std::string::npos ? "see the message" : fatal.substr(end + sizeof(kRemedy) - 1));
  }

  void KubeProxy() {
    if (!Runs()) return;
    Note(facts_.kube_proxy,
         "svcmapd may start beside it: a connection is translated by the one whose chains come "
         "first, svcmap's if they were made later, and both know the same endpoints. The ports "
         "10249 and 10256 stay kube-proxy's until it ends",
         "start svcmapd, wait until it serves (svcmapctl wait), then take kube-proxy from this "
         "node; see docs/migration.md");
  }

  void Ipvs() {
    if (!HasInterface(kIpvsInterface)) {
      if (!facts_.virtual_servers) return;
      Note(
          "there are virtual servers of ipvs, and no interface kube-ipvs0: they are not "
          "kube-proxy's",
          "svcmap leaves them alone, and so does --remove-kube-proxy",
          "do not run kube-proxy --cleanup here: it removes all that there is of ipvs");
      return;
    }
    Attention(
        absl::StrCat("there is an interface ", kIpvsInterface,
                     ": kube-proxy works, or worked, in mode ipvs"),
        "the node answers at every Service address it was given; --remove-kube-proxy removes "
        "nothing while that is so",
        "once svcmapd serves and kube-proxy is gone from this node, run kube-proxy --cleanup; it "
        "removes all that there is of ipvs, the virtual servers of others (keepalived) as well");
  }

  // Rules of kube-proxy, whatever they are in.
  void Rules(const std::string& what) {
    if (Runs()) {
      Note(what, "kube-proxy keeps them up to date while it runs",
           "when it is gone from this node, have them removed: svcmapd --remove-kube-proxy");
    } else {
      Attention(what, kStale, kRemove);
    }
  }

  void Tables() {
    if (!facts_.report) return;
    std::set<std::string> tables;
    for (const nft::ForeignChain& chain : facts_.report->chains) {
      if (chain.table == kKubeProxyTable && IsInet(chain)) {
        tables.insert(absl::StrCat("table ", chain.family, " ", chain.table));
      }
    }
    if (tables.empty()) return;
    Rules(absl::StrCat("rules of kube-proxy, mode nftables: ", absl::StrJoin(tables, " and ")));
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
      Attention(absl::StrCat(flavour, ": ", kept),
                "--remove-kube-proxy leaves this chain; kube-proxy --cleanup does not, and what "
                "needs it breaks then",
                absl::StrCat("have a rule of your own, such as ", command,
                             " -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT, and then remove "
                             "the chain and the jump to it; see docs/migration.md"));
    }
    for (const IptablesTable& table : found.save.tables) {
      if (table.name == "filter") Filter(found, table, command, !removal.kept.empty());
    }
    for (const std::string& rule : ForeignTranslations(found.save, places)) {
      Attention(absl::StrCat(flavour,
                             " translates an address or nodePort of a Service by a rule "
                             "that is not kube-proxy's: ",
                             rule),
                "svcmap's chains come before those of iptables when svcmapd is started later: this "
                "rule has no effect then",
                "give the Service or the rule another address or port");
    }
  }

  // Without kube-proxy's chain that lets Service traffic through. That of iptables-nft which drops
  // by policy is among the warnings of the report.
  void Forward(const IptablesRead::Found& found, const IptablesTable& table,
               const std::string& command) {
    const std::string drops = DropsText(table, "FORWARD");
    if (drops.empty()) return;
    const std::string what = absl::StrCat("FORWARD of ", found.flavour.ToString(), " ", drops);
    const std::string remedy =
        absl::StrCat(command, " -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT");
    if (!DropsByDefault(table, "FORWARD")) {
      Note(what, "connections to Services that such a rule fits get lost (S-146)", remedy);
    } else if (found.flavour.legacy) {
      Attention(what,
                "connections to Services get through only if a rule in it accepts them (S-146)",
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
           "load balancers reach healthCheckNodePorts, and port 10256, only if a rule in it "
           "accepts them (S-147)",
           absl::StrCat(command, " -I INPUT -p tcp --dport PORT -j ACCEPT for each"));
    }
  }

  void Owners() {
    for (const KnownOwner& owner : kOwners) {
      if (!HasInterface(owner.interface)) continue;
      Attention(absl::StrCat("interface ", owner.interface, ": ", owner.name, " is here"),
                "where it serves Services, it does so before any rule of svcmap sees a packet",
                owner.remedy);
    }
  }

  // Base chains that may translate destinations; iptables' own are looked into rule by rule.
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
        Attention(what, "it comes before svcmap: what it translates never reaches a Service",
                  "see that it leaves the addresses and nodePorts of Services alone");
      } else {
        Note(what, "svcmap comes first, and what svcmap translates never reaches it",
             "nothing, if it has no business with addresses of Services");
      }
    }
  }

  void Node() {
    if (!facts_.report) return;
    for (const NodeReport::Warning& warning : facts_.report->warnings) {
      if (warning.about == NodeReport::kOtherProxy || warning.about == NodeReport::kLegacyFilter ||
          accepting_.contains(warning.about)) {
        continue;
      }
      Attention(warning.what, "svcmapd starts, and warns of it", warning.remedy);
    }
  }

  void Unread() {
    for (const auto* unread : {&facts_.unread, &facts_.iptables.unread}) {
      for (const std::string& what : *unread) {
        Attention("not looked at: " + what, "what there is may be in the way",
                  "look yourself, or run this where the programs named are");
      }
    }
  }

  const MigrationFacts& facts_;
  std::vector<Finding> findings_;
  std::set<std::string> accepting_;  // Chains that drop by default and let translations through.
};

}  // namespace

std::vector<Finding> JudgeMigration(const MigrationFacts& facts) {
  return MigrationJudge(facts).Judge();
}

}  // namespace svcmap::api
