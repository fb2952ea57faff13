// The compared implementation "ipvs" programs what kube-proxy's IPVS mode programs for cluster IPs:
// a virtual server per Service port with the scheduler rr, a real server per endpoint, and the
// cluster IP as an address of the interface kube-ipvs0, so that packets to it reach IPVS. The
// values are those of pkg/proxy/ipvs/proxier.go in kube-proxy 1.36.
//
// ipvsadm writes one netlink message per server, as kube-proxy does. The measurement excludes
// kube-proxy's own work, its constant iptables rules, its ipsets, and its listings of all virtual
// and real servers in each sync. All omissions favour kube-proxy.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/bench/opponents/opponent.h"
#include "tests/bench/opponents/tool_run.h"

namespace svcmap::bench {
namespace {

constexpr char kInterface[] = "kube-ipvs0";

// Returns the option and the address that name a virtual server, for example "-t 10.96.0.1:80".
std::string VirtualServer(const ServicePort& port) {
  return absl::StrCat(port.protocol == proxy::Protocol::kUdp ? "-u " : "-t ",
                      port.cluster_ip.ToString(), ":", port.port);
}

bool HasEndpoint(const ServicePort& port, const proxy::EndpointAddress& address) {
  return std::any_of(port.endpoints.begin(), port.endpoints.end(),
                     [&](const BenchEndpoint& endpoint) { return endpoint.address == address; });
}

// The input of ip and ipvsadm for one update. Empty input needs no program.
struct IpvsUpdate {
  std::string addresses, servers;

  void Change(const std::optional<ServicePort>& before, const std::optional<ServicePort>& after) {
    const ServicePort& port = after ? *after : *before;
    const std::string server = VirtualServer(port);
    const auto address = [&](const char* command) {
      absl::StrAppend(&addresses, "address ", command, " ", port.cluster_ip.ToString(), "/32 dev ",
                      kInterface, "\n");
    };
    if (!after) {
      absl::StrAppend(&servers, "-D ", server, "\n");
      address("delete");
      return;
    }
    if (!before) {
      absl::StrAppend(&servers, "-A ", server, " -s rr\n");
      address("add");
    }
    for (const BenchEndpoint& endpoint : after->endpoints) {
      if (before && HasEndpoint(*before, endpoint.address)) continue;
      absl::StrAppend(&servers, "-a ", server, " -r ", endpoint.address.ip.ToString(), ":",
                      endpoint.address.port, " -m -w 1\n");
    }
    if (!before) return;
    for (const BenchEndpoint& endpoint : before->endpoints) {
      if (HasEndpoint(*after, endpoint.address)) continue;
      absl::StrAppend(&servers, "-d ", server, " -r ", endpoint.address.ip.ToString(), ":",
                      endpoint.address.port, "\n");
    }
  }
};

class Ipvs : public Opponent {
 public:
  Ipvs(const testing::NetNs& netns, std::chrono::seconds time_limit)
      : netns_(netns), time_limit_(time_limit) {}

  absl::StatusOr<Cost> Load(const Cluster& cluster) override {
    if (cluster.shape().mix != Mix::kClusterIp) {
      return absl::UnimplementedError("only cluster IPs without other features");
    }
    // Connection tracking lets the constant rules of kube-proxy masquerade.
    if (absl::Status status = netns_.WriteSysctl("net/ipv4/vs/conntrack", "1"); !status.ok()) {
      return status;
    }
    IpvsUpdate update{.addresses = absl::StrCat("link add ", kInterface, " type dummy\n"),
                      .servers = {}};
    for (const ServicePort& port : cluster.ports()) update.Change({}, port);
    return Run(update);
  }

  absl::StatusOr<Cost> Change(const Cluster&, const std::vector<ClusterChange>& changes) override {
    IpvsUpdate update;
    for (const ClusterChange& change : changes) update.Change(change.before, change.after);
    return Run(update);
  }

  absl::StatusOr<Cost> Resync(const Cluster&) override {
    return absl::UnimplementedError("ipvsadm cannot change only what differs");
  }

  ProcessMemory Memory() const override { return {}; }

 private:
  absl::StatusOr<Cost> Run(const IpvsUpdate& update) {
    Cost cost{.seconds = 0, .cpu_seconds = 0};
    for (const auto& [argv, input] :
         {std::pair(std::vector<std::string>{"ipvsadm", "--restore"}, &update.servers),
          std::pair(std::vector<std::string>{"ip", "-batch", "-"}, &update.addresses)}) {
      if (input->empty()) continue;
      const absl::StatusOr<ToolRun> run = RunTool(argv, *input, netns_, time_limit_);
      if (!run.ok()) return run.status();
      cost.seconds += run->seconds;
      cost.cpu_seconds += run->cpu_seconds;
      cost.peak_rss_kib = std::max(cost.peak_rss_kib, run->peak_rss_kib);
    }
    return cost;
  }

  const testing::NetNs& netns_;
  const std::chrono::seconds time_limit_;
};

}  // namespace

MadeOpponent MakeIpvs(const testing::NetNs& netns, const OpponentSettings& settings) {
  // The first call loads the module ip_vs.
  const absl::StatusOr<ToolRun> works =
      RunTool({"ipvsadm", "--list"}, "", netns, settings.time_limit);
  if (!works.ok()) {
    return absl::FailedPreconditionError("IPVS is not available: " +
                                         std::string(works.status().message()));
  }
  return std::make_unique<Ipvs>(netns, settings.time_limit);
}

}  // namespace svcmap::bench
