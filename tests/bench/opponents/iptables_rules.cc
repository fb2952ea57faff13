#include "tests/bench/opponents/iptables_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proxy/names/kube_names.h"

namespace svcmap::bench {
namespace {

// Number of endpoints above which kube-proxy treats a cluster as large.
constexpr size_t kLargeCluster = 1000;
constexpr char kMark[] = "0x00004000";

// A jump from a built-in chain to a kube-proxy chain.
struct Jump {
  const char* table;
  const char* to;
  const char* from;
  const char* comment;  // Comment of the rule. Empty if the jump has no comment.
  bool only_new;
};
constexpr char kExternalPortals[] = "kubernetes externally-visible service portals";
constexpr char kPortals[] = "kubernetes service portals";
constexpr char kFirewall[] = "kubernetes load balancer firewall";
// Jumps in the order in which kube-proxy inserts them.
constexpr Jump kJumps[] = {
    {"filter", "KUBE-EXTERNAL-SERVICES", "INPUT", kExternalPortals, true},
    {"filter", "KUBE-EXTERNAL-SERVICES", "FORWARD", kExternalPortals, true},
    {"filter", "KUBE-NODEPORTS", "INPUT", "kubernetes health check service ports", false},
    {"filter", "KUBE-SERVICES", "FORWARD", kPortals, true},
    {"filter", "KUBE-SERVICES", "OUTPUT", kPortals, true},
    {"filter", "KUBE-FORWARD", "FORWARD", "kubernetes forwarding rules", false},
    {"filter", "KUBE-PROXY-FIREWALL", "INPUT", kFirewall, true},
    {"filter", "KUBE-PROXY-FIREWALL", "OUTPUT", kFirewall, true},
    {"filter", "KUBE-PROXY-FIREWALL", "FORWARD", kFirewall, true},
    {"nat", "KUBE-SERVICES", "OUTPUT", kPortals, false},
    {"nat", "KUBE-SERVICES", "PREROUTING", kPortals, false},
    {"nat", "KUBE-POSTROUTING", "POSTROUTING", "kubernetes postrouting rules", false},
    {"filter", "KUBE-FIREWALL", "INPUT", "", false},
    {"filter", "KUBE-FIREWALL", "OUTPUT", "", false},
};

std::string ChainLine(const std::string& chain) { return ":" + chain + " - [0:0]\n"; }

// Returns text such as ` -m comment --comment "TEXT"`.
std::string Comment(const std::string& text) {
  return absl::StrCat(" -m comment --comment \"", text, "\"");
}

struct NamedEndpoint {
  std::string text;   // Address and port, for example "10.0.0.1:80".
  std::string chain;  // Chain of the endpoint, for example "KUBE-SEP-...".
  const BenchEndpoint* endpoint;
};

// Data from which the rules of one Service port are generated.
struct PortPlan {
  explicit PortPlan(const ServicePort& service_port) : port(service_port) {
    const std::string hash = proxy::KubeServiceHash(port.Key(), port.port_name, port.protocol);
    svc = "KUBE-SVC-" + hash;
    svl = "KUBE-SVL-" + hash;
    ext = "KUBE-EXT-" + hash;
    fw = "KUBE-FW-" + hash;
    has_endpoints = !port.endpoints.empty();
    const bool accessible =
        port.node_port != 0 || !port.load_balancer_ips.empty() || !port.external_ips.empty();
    local = port.external_local && accessible;
    const bool any_here = std::any_of(port.endpoints.begin(), port.endpoints.end(),
                                      [](const BenchEndpoint& e) { return e.node == 0; });
    uses_svl = local && any_here;
    uses_ext = has_endpoints && accessible;
    uses_fw = has_endpoints && !port.load_balancer_ips.empty() && !port.source_ranges.empty();
    external_answers = has_endpoints && (!local || any_here);
  }

  // Returns the endpoints sorted by their string form (S-27).
  std::vector<NamedEndpoint> Endpoints() const {
    std::vector<NamedEndpoint> endpoints;
    endpoints.reserve(port.endpoints.size());
    for (const BenchEndpoint& endpoint : port.endpoints) {
      endpoints.push_back({endpoint.address.ip.WithPort(endpoint.address.port),
                           "KUBE-SEP-" + proxy::KubeEndpointHash(port.Key(), port.port_name,
                                                                 port.protocol, endpoint.address),
                           &endpoint});
    }
    std::sort(endpoints.begin(), endpoints.end(),
              [](const NamedEndpoint& a, const NamedEndpoint& b) { return a.text < b.text; });
    return endpoints;
  }

  // Returns the names of all chains of the Service port in table nat.
  std::vector<std::string> Chains() const {
    std::vector<std::string> chains;
    if (uses_ext) chains.push_back(ext);
    if (uses_fw) chains.push_back(fw);
    if (has_endpoints) chains.push_back(svc);
    if (uses_svl) chains.push_back(svl);
    for (NamedEndpoint& endpoint : Endpoints()) chains.push_back(std::move(endpoint.chain));
    return chains;
  }

  const ServicePort& port;
  std::string svc, svl, ext, fw;
  bool has_endpoints;  // True if the Service has an endpoint on any node.
  bool local;          // True if externalTrafficPolicy is Local.
  bool uses_svl, uses_ext, uses_fw;
  bool external_answers;  // True if external clients reach an endpoint through this node.
};

// The iptables-restore input for one sync. As in kube-proxy, the input has four parts, and chains
// precede rules in each table.
class SyncText {
 public:
  SyncText(Family family, const IptablesOptions& options, bool large)
      : family_(family), options_(options), large_(large) {
    for (const char* chain : {"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD",
                              "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL"}) {
      filter_chains_ += ChainLine(chain);
    }
    for (const char* chain :
         {"KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ"}) {
      nat_chains_ += ChainLine(chain);
    }
    absl::StrAppend(&nat_rules_, "-A KUBE-POSTROUTING -m mark ! --mark ", kMark, "/", kMark,
                    " -j RETURN\n-A KUBE-POSTROUTING -j MARK --xor-mark ", kMark,
                    "\n-A KUBE-POSTROUTING", Comment("kubernetes service traffic requiring SNAT"),
                    " -j MASQUERADE --random-fully\n-A KUBE-MARK-MASQ -j MARK --or-mark ", kMark,
                    "\n");
    if (family == Family::kIpv4) {
      filter_chains_ += ChainLine("KUBE-FIREWALL");
      absl::StrAppend(&filter_rules_, "-A KUBE-FIREWALL",
                      Comment("block incoming localnet connections"),
                      " -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate "
                      "RELATED,ESTABLISHED,DNAT -j DROP\n");
    }
  }

  // Adds rules for the Service port to chains that all Service ports share.
  void AddDispatch(const PortPlan& plan) {
    const ServicePort& port = plan.port;
    const std::string text = port.Text();
    const std::string rejection =
        Comment(text + (plan.has_endpoints ? " has no local endpoints" : " has no endpoints"));
    const char* verdict = plan.has_endpoints ? "DROP" : "REJECT";
    const auto reject = [&](const IpAddress& ip) {
      absl::StrAppend(&filter_rules_, "-A KUBE-EXTERNAL-SERVICES", rejection, To(port, ip), " -j ",
                      verdict, "\n");
    };

    if (plan.has_endpoints) {
      absl::StrAppend(&nat_rules_, "-A KUBE-SERVICES", ToClusterIp(port), " -j ", plan.svc, "\n");
    } else {
      absl::StrAppend(&filter_rules_, "-A KUBE-SERVICES", rejection, To(port, port.cluster_ip),
                      " -j ", verdict, "\n");
    }
    for (const IpAddress& ip : port.external_ips) {
      if (plan.has_endpoints) {
        absl::StrAppend(&nat_rules_, "-A KUBE-SERVICES", Comment(text + " external IP"),
                        To(port, ip), " -j ", plan.ext, "\n");
      }
      if (!plan.external_answers) reject(ip);
    }
    for (const IpAddress& ip : port.load_balancer_ips) {
      if (plan.has_endpoints) {
        absl::StrAppend(&nat_rules_, "-A KUBE-SERVICES", Comment(text + " loadbalancer IP"),
                        To(port, ip), " -j ", plan.uses_fw ? plan.fw : plan.ext, "\n");
      }
      if (plan.uses_fw) {
        absl::StrAppend(&filter_rules_, "-A KUBE-PROXY-FIREWALL",
                        Comment(text + " traffic not accepted by " + plan.fw), To(port, ip),
                        " -j DROP\n");
      }
    }
    if (!plan.external_answers) {
      for (const IpAddress& ip : port.load_balancer_ips) reject(ip);
    }
    AddNodePort(plan, rejection, verdict);
  }

  // Adds rules to the chains that belong to this Service port.
  void AddChains(const PortPlan& plan) {
    if (!plan.has_endpoints) return;
    const ServicePort& port = plan.port;
    if (options_.cluster_cidr) {
      absl::StrAppend(&nat_rules_, "-A ", plan.svc, ToClusterIp(port), " ! -s ",
                      options_.cluster_cidr->ToString(), " -j KUBE-MARK-MASQ\n");
    }
    if (plan.uses_ext) AddExternal(plan);
    if (plan.uses_fw) AddFirewall(plan);
    const std::vector<NamedEndpoint> endpoints = plan.Endpoints();
    AddChoice(port, plan.svc, endpoints);
    if (plan.uses_svl) {
      std::vector<NamedEndpoint> here;
      for (const NamedEndpoint& endpoint : endpoints) {
        if (endpoint.endpoint->node == 0) here.push_back(endpoint);
      }
      AddChoice(port, plan.svl, here);
    }
    for (const NamedEndpoint& endpoint : endpoints) AddEndpoint(port, endpoint);
  }

  void Delete(const std::set<std::string>& chains) {
    for (const std::string& chain : chains) {
      nat_chains_ += ChainLine(chain);
      absl::StrAppend(&nat_rules_, "-X ", chain, "\n");
    }
  }

  std::string Finish() && {
    absl::StrAppend(
        &nat_rules_, "-A KUBE-SERVICES",
        Comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain"),
        " -m addrtype --dst-type LOCAL", family_ == Family::kIpv6 ? " ! -d ::1/128" : "",
        " -j KUBE-NODEPORTS\n");
    absl::StrAppend(&filter_rules_,
                    "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n-A KUBE-FORWARD",
                    Comment("kubernetes forwarding rules"), " -m mark --mark ", kMark, "/", kMark,
                    " -j ACCEPT\n-A KUBE-FORWARD", Comment("kubernetes forwarding conntrack rule"),
                    " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n");
    std::string text;
    text.reserve(filter_chains_.size() + filter_rules_.size() + nat_chains_.size() +
                 nat_rules_.size() + 64);
    absl::StrAppend(&text, "*filter\n", filter_chains_, filter_rules_, "COMMIT\n*nat\n",
                    nat_chains_, nat_rules_, "COMMIT\n");
    return text;
  }

 private:
  // Returns text such as " -m tcp -p tcp".
  static std::string Match(proxy::Protocol protocol) {
    const std::string_view upper = proxy::ProtocolName(protocol);
    const std::string name = absl::AsciiStrToLower({upper.data(), upper.size()});
    return absl::StrCat(" -m ", name, " -p ", name);
  }
  static std::string To(const ServicePort& port, const IpAddress& ip) {
    return absl::StrCat(Match(port.protocol), " -d ", ip.ToString(), " --dport ", port.port);
  }
  static std::string ToClusterIp(const ServicePort& port) {
    return Comment(port.Text() + " cluster IP") + To(port, port.cluster_ip);
  }

  void AddNodePort(const PortPlan& plan, const std::string& rejection, const char* verdict) {
    const ServicePort& port = plan.port;
    if (port.node_port != 0) {
      const std::string match = absl::StrCat(Match(port.protocol), " --dport ", port.node_port);
      if (plan.has_endpoints) {
        absl::StrAppend(&nat_rules_, "-A KUBE-NODEPORTS -m comment --comment ", port.Text(), match,
                        " -j ", plan.ext, "\n");
      }
      if (!plan.external_answers) {
        absl::StrAppend(&filter_rules_, "-A KUBE-EXTERNAL-SERVICES", rejection,
                        " -m addrtype --dst-type LOCAL", match, " -j ", verdict, "\n");
      }
    }
    // kube-proxy opens the health check port only for Services of type LoadBalancer (S-13).
    if (port.health_check_node_port != 0 && plan.local && !port.load_balancer_ips.empty()) {
      absl::StrAppend(&filter_rules_, "-A KUBE-NODEPORTS",
                      Comment(port.Text() + " health check node port"), " -m tcp -p tcp --dport ",
                      port.health_check_node_port, " -j ACCEPT\n");
    }
  }

  void AddExternal(const PortPlan& plan) {
    nat_chains_ += ChainLine(plan.ext);
    const auto add = [&](const char* what, const std::string& rest) {
      absl::StrAppend(
          &nat_rules_, "-A ", plan.ext,
          Comment(absl::StrCat(what, " traffic for ", plan.port.Text(), " external destinations")),
          rest, "\n");
    };
    if (!plan.local) {
      add("masquerade", " -j KUBE-MARK-MASQ");
    } else {
      if (options_.cluster_cidr) {
        add("pod", absl::StrCat(" -s ", options_.cluster_cidr->ToString(), " -j ", plan.svc));
      }
      add("masquerade LOCAL", " -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ");
      add("route LOCAL", absl::StrCat(" -m addrtype --src-type LOCAL -j ", plan.svc));
    }
    if (plan.external_answers) {
      absl::StrAppend(&nat_rules_, "-A ", plan.ext, " -j ", plan.local ? plan.svl : plan.svc, "\n");
    }
  }

  void AddFirewall(const PortPlan& plan) {
    const ServicePort& port = plan.port;
    nat_chains_ += ChainLine(plan.fw);
    const auto allow = [&](const std::string& source) {
      absl::StrAppend(&nat_rules_, "-A ", plan.fw, Comment(port.Text() + " loadbalancer IP"),
                      " -s ", source, " -j ", plan.ext, "\n");
    };
    bool node_allowed = false;
    for (const IpPrefix& range : port.source_ranges) {
      allow(range.ToString());
      node_allowed |= options_.node_ip && range.Contains(*options_.node_ip);
    }
    if (node_allowed) {
      for (const IpAddress& ip : port.load_balancer_ips) allow(ip.ToString());
    }
    absl::StrAppend(
        &nat_rules_, "-A ", plan.fw,
        Comment("other traffic to " + port.Text() + " will be dropped by KUBE-PROXY-FIREWALL"),
        "\n");
  }

  // Adds the rules that lead from `chain` to the endpoints.
  void AddChoice(const ServicePort& port, const std::string& chain,
                 const std::vector<NamedEndpoint>& endpoints) {
    nat_chains_ += ChainLine(chain);
    const auto add = [&](const NamedEndpoint& to, const std::string& condition) {
      absl::StrAppend(&nat_rules_, "-A ", chain,
                      large_ ? "" : Comment(absl::StrCat(port.Text(), " -> ", to.text)), condition,
                      " -j ", to.chain, "\n");
    };
    if (port.affinity_seconds != 0) {
      for (const NamedEndpoint& endpoint : endpoints) {
        add(endpoint, absl::StrCat(" -m recent --name ", endpoint.chain, " --rcheck --seconds ",
                                   port.affinity_seconds, " --reap"));
      }
    }
    for (size_t i = 0; i < endpoints.size(); ++i) {
      const size_t left = endpoints.size() - i;
      add(endpoints[i], left == 1
                            ? ""
                            : absl::StrFormat(" -m statistic --mode random --probability %.10f",
                                              1.0 / static_cast<double>(left)));
    }
  }

  void AddEndpoint(const ServicePort& port, const NamedEndpoint& endpoint) {
    nat_chains_ += ChainLine(endpoint.chain);
    const std::string head =
        absl::StrCat("-A ", endpoint.chain, large_ ? "" : " -m comment --comment " + port.Text());
    absl::StrAppend(&nat_rules_, head, " -s ", endpoint.endpoint->address.ip.ToString(),
                    " -j KUBE-MARK-MASQ\n", head);
    if (port.affinity_seconds != 0) {
      absl::StrAppend(&nat_rules_, " -m recent --name ", endpoint.chain, " --set");
    }
    absl::StrAppend(&nat_rules_, Match(port.protocol), " -j DNAT --to-destination ", endpoint.text,
                    "\n");
  }

  const Family family_;
  const IptablesOptions& options_;
  const bool large_;
  std::string filter_chains_, filter_rules_, nat_chains_, nat_rules_;
};

}  // namespace

bool IsLargeForIptables(const std::vector<ServicePort>& ports) {
  size_t endpoints = 0;
  for (const ServicePort& port : ports) endpoints += port.endpoints.size();
  return endpoints > kLargeCluster;
}

std::string IptablesRules::SetUp() const {
  std::string text;
  for (const char* table : {"mangle", "nat", "filter"}) {
    absl::StrAppend(&text, "*", table, "\n", ChainLine("KUBE-PROXY-CANARY"));
    std::set<std::string> chains;
    std::string rules;
    for (const Jump& jump : kJumps) {
      if (std::string(jump.table) != table) continue;
      chains.insert(jump.to);
      const std::string comment = jump.comment;
      absl::StrAppend(&rules, "-I ", jump.from, jump.only_new ? " -m conntrack --ctstate NEW" : "",
                      comment.empty() ? "" : Comment(comment), " -j ", jump.to, "\n");
    }
    for (const std::string& chain : chains) text += ChainLine(chain);
    absl::StrAppend(&text, rules, "COMMIT\n");
  }
  return text;
}

std::string IptablesRules::FullSync(const std::vector<ServicePort>& ports, bool clean_up) {
  return Sync(ports, nullptr, clean_up);
}

std::string IptablesRules::PartialSync(const std::vector<ServicePort>& ports,
                                       const std::vector<ClusterChange>& changes, bool clean_up) {
  std::set<std::string> changed;
  for (const ClusterChange& change : changes) {
    if (change.before) {
      changed.insert(change.before->Key());
      for (std::string& chain : PortPlan(*change.before).Chains()) stale_.insert(std::move(chain));
    }
    if (change.after) {
      changed.insert(change.after->Key());
      for (const std::string& chain : PortPlan(*change.after).Chains()) stale_.erase(chain);
    }
  }
  return Sync(ports, &changed, clean_up);
}

std::string IptablesRules::Sync(const std::vector<ServicePort>& ports,
                                const std::set<std::string>* changed, bool clean_up) {
  SyncText text(family_, options_, IsLargeForIptables(ports));
  for (const ServicePort& port : ports) {
    const PortPlan plan(port);
    text.AddDispatch(plan);
    if (changed == nullptr || changed->contains(port.Key())) text.AddChains(plan);
  }
  if (clean_up) {
    text.Delete(stale_);
    stale_.clear();
  }
  return std::move(text).Finish();
}

}  // namespace svcmap::bench
