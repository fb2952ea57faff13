// The compared implementations "iptables-legacy" and "iptables-nft" run the commands of a
// kube-proxy 1.36 sync in iptables mode, with the rules from iptables_rules.h.
//
// The measurement includes iptables-restore and the preceding iptables-save with which kube-proxy
// finds stale chains. kube-proxy runs iptables-save in each sync in small clusters, and every 30 s
// in large clusters. The measurement excludes kube-proxy's own work and the creation of jumps from
// built-in chains. The measurement also excludes the 28 iptables commands with which a full sync
// checks the jumps. All omissions favour kube-proxy.
#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/bench/opponents/iptables_rules.h"
#include "tests/bench/opponents/opponent.h"
#include "tests/bench/opponents/tool_run.h"

namespace svcmap::bench {
namespace {

using CleanUpClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSyncPeriod(30);  // kube-proxy's default sync period.
constexpr std::chrono::seconds kProbeLimit(20);

// The commands of one iptables variant.
struct IptablesTool {
  bool legacy;

  std::string Name(const char* what) const {
    return absl::StrCat(legacy ? "iptables-legacy-" : "iptables-nft-", what);
  }
  // Runs iptables-restore with kube-proxy's options, which keep the chains of other processes.
  absl::StatusOr<ToolRun> Restore(const std::string& text, const testing::NetNs& netns,
                                  std::chrono::seconds limit) const {
    return RunTool({Name("restore"), "-w", "5", "-W", "100000", "--noflush", "--counters"}, text,
                   netns, limit);
  }
  absl::StatusOr<ToolRun> Save(const testing::NetNs& netns, std::chrono::seconds limit) const {
    return RunTool({Name("save"), "-t", "nat"}, "", netns, limit);
  }
};

IptablesRules Rules() {
  return {Family::kIpv4, {.cluster_cidr = IpPrefix::Parse(testing::kClusterCidrV4)}};
}

// Returns Service ports that together require every kind of rule.
std::vector<ServicePort> ProbePorts() {
  Cluster cluster({.services = 11, .endpoints = 2, .mix = Mix::kEverything});
  std::vector<ServicePort> ports = cluster.ports();
  ports.front().endpoints.clear();
  return ports;
}

// Loads the probe rules in a separate namespace, so that the node stays empty.
absl::Status ProbeTool(const IptablesTool& tool) {
  absl::StatusOr<testing::NetNs> netns = testing::NetNs::Create();
  if (!netns.ok()) return netns.status();
  IptablesRules rules = Rules();
  for (const std::string& text :
       {rules.SetUp(), rules.FullSync(ProbePorts(), /*clean_up=*/false)}) {
    if (absl::StatusOr<ToolRun> run = tool.Restore(text, *netns, kProbeLimit); !run.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rules of kube-proxy cannot be loaded here: ", run.status().ToString()));
    }
  }
  return absl::OkStatus();
}

class Iptables : public Opponent {
 public:
  Iptables(bool legacy, const testing::NetNs& netns, std::chrono::seconds time_limit)
      : tool_{legacy}, netns_(netns), time_limit_(time_limit) {}

  absl::StatusOr<Cost> Load(const Cluster& cluster) override {
    // nodePorts on 127.0.0.1 require route_localnet (S-142).
    if (absl::Status status = netns_.WriteSysctl("net/ipv4/conf/all/route_localnet", "1");
        !status.ok()) {
      return status;
    }
    if (absl::StatusOr<ToolRun> run = tool_.Restore(rules_.SetUp(), netns_, time_limit_);
        !run.ok()) {
      return run.status();
    }
    return Resync(cluster);
  }

  absl::StatusOr<Cost> Change(const Cluster& cluster,
                              const std::vector<ClusterChange>& changes) override {
    const bool clean_up = CleanUpIsDue(cluster);
    return Sync(rules_.PartialSync(cluster.ports(), changes, clean_up), clean_up);
  }

  absl::StatusOr<Cost> Resync(const Cluster& cluster) override {
    const bool clean_up = CleanUpIsDue(cluster);
    return Sync(rules_.FullSync(cluster.ports(), clean_up), clean_up);
  }

  ProcessMemory Memory() const override { return {}; }

 private:
  bool CleanUpIsDue(const Cluster& cluster) const {
    return !IsLargeForIptables(cluster.ports()) || !cleaned_up_ ||
           CleanUpClock::now() - *cleaned_up_ > kSyncPeriod;
  }

  absl::StatusOr<Cost> Sync(const std::string& text, bool clean_up) {
    Cost cost{.seconds = 0, .cpu_seconds = 0};
    const auto add = [&cost](const ToolRun& run) {
      cost.seconds += run.seconds;
      cost.cpu_seconds += run.cpu_seconds;
      cost.peak_rss_kib = std::max(cost.peak_rss_kib, run.peak_rss_kib);
    };
    std::chrono::seconds limit = time_limit_;
    if (clean_up) {
      absl::StatusOr<ToolRun> save = tool_.Save(netns_, limit);
      if (!save.ok()) return save.status();
      add(*save);
      cleaned_up_ = CleanUpClock::now();
      limit -= std::chrono::duration_cast<std::chrono::seconds>(
          std::chrono::duration<double>(save->seconds));
    }
    absl::StatusOr<ToolRun> restore = tool_.Restore(text, netns_, limit);
    if (!restore.ok()) return restore.status();
    add(*restore);
    return cost;
  }

  const IptablesTool tool_;
  const testing::NetNs& netns_;
  const std::chrono::seconds time_limit_;
  IptablesRules rules_ = Rules();
  std::optional<CleanUpClock::time_point> cleaned_up_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Opponent>> MakeIptables(bool legacy, const testing::NetNs& netns,
                                                       const OpponentSettings& settings) {
  if (absl::Status status = ProbeTool({legacy}); !status.ok()) return status;
  return std::make_unique<Iptables>(legacy, netns, settings.time_limit);
}

}  // namespace svcmap::bench
