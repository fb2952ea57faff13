#include "tests/bench/opponents/kube_proxy.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/bench/commit_watch.h"
#include "tests/bench/opponents/api_server.h"
#include "tests/bench/opponents/kube_proxy_rules.h"
#include "tests/support/process.h"
#include "tests/support/topology.h"

namespace svcmap::bench {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kKubeProxyPoll{1};
constexpr std::chrono::seconds kToolPatience{5};
// Maximum number of bytes from the end of kube-proxy's standard error output in an error message.
constexpr size_t kQuotedOfKubeProxy = 600;

bool HasChildren(pid_t pid) {
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error)) {
    std::ifstream children(task.path() / "children");
    if (children.peek() != std::ifstream::traits_type::eof()) return true;
  }
  return false;
}

class KubeProxy : public Opponent {
 public:
  KubeProxy(const testing::NetNs& netns, OpponentSettings settings, std::string id,
            std::unique_ptr<ApiServer> server, std::unique_ptr<CommitWatch> commits)
      : netns_(netns),
        settings_(std::move(settings)),
        mode_(settings_.kube_proxy_mode == "iptables" ? KubeProxyMode::kIptables
                                                      : KubeProxyMode::kNftables),
        id_(std::move(id)),
        server_(std::move(server)),
        commits_(std::move(commits)) {}

  absl::StatusOr<Cost> Load(const Cluster& cluster) override {
    for (const ServicePort& port : cluster.ports()) {
      if (port.load_balancer_ips.empty()) continue;
      return absl::UnimplementedError("Service " + port.Key() + " has a load balancer IP");
    }
    if (absl::Status status = server_->Create(cluster); !status.ok()) return status;
    const absl::StatusOr<std::string> kubeconfig = server_->Expose(netns_);
    if (!kubeconfig.ok()) return kubeconfig.status();

    const uint32_t generation = commits_->Seen().generation;
    const SteadyTime start = std::chrono::steady_clock::now();
    auto process = testing::ChildProcess::Start({.argv = Arguments(*kubeconfig), .netns = &netns_});
    if (!process.ok()) return process.status();
    process_ = *std::move(process);
    const std::vector<ServicePort>& ports = cluster.ports();
    std::vector<Check> checks;
    for (const size_t position : {ports.size() - 1, size_t{0}, ports.size() / 2}) {
      checks.push_back(Programmed(ports[position]));
    }
    return Await(start, 0, generation, checks);
  }

  absl::StatusOr<Cost> Change(const Cluster&, const std::vector<ClusterChange>& changes) override {
    struct Net {
      bool was_there;  // True if the Service port existed before its first change in the list.
      const ClusterChange* last;
    };
    std::map<std::string, Net> net;
    for (const ClusterChange& change : changes) {
      const std::string name = (change.after ? *change.after : *change.before).Text();
      net.try_emplace(name, Net{change.before.has_value(), nullptr}).first->second.last = &change;
    }
    std::vector<Check> checks;
    for (const auto& [unused, port] : net) {
      if (port.last->after) {
        checks.push_back(Programmed(*port.last->after));
      } else if (port.was_there) {  // Skip ports that were both added and deleted.
        checks.push_back(Gone(*port.last->before));
      }
    }
    const uint32_t generation = commits_->Seen().generation;
    const double cpu_before = CpuSecondsWithChildrenOf(process_->pid());
    if (absl::Status status = server_->Notify(changes); !status.ok()) return status;
    return Await(std::chrono::steady_clock::now(), cpu_before, generation, checks);
  }

  absl::StatusOr<Cost> Resync(const Cluster&) override {
    return absl::UnimplementedError("kube-proxy cannot be told to sync everything again");
  }

  ProcessMemory Memory() const override {
    return process_ == nullptr ? ProcessMemory() : MemoryOf(process_->pid());
  }

 private:
  using Check = std::function<absl::StatusOr<bool>()>;

  std::vector<std::string> Arguments(const std::string& kubeconfig) const {
    return {settings_.kube_proxy,
            "--kubeconfig=" + kubeconfig,
            "--proxy-mode=" + settings_.kube_proxy_mode,
            absl::StrCat("--hostname-override=", kThisNode),
            absl::StrCat("--cluster-cidr=", ClusterCidr(Family::kIpv4), ",",
                         ClusterCidr(Family::kIpv6)),
            "--iptables-min-sync-period=1ms",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0"};
  }

  Check Programmed(const ServicePort& port) const {
    return [this, port = InApiServer(id_, port)] { return IsProgrammed(netns_, mode_, port); };
  }
  Check Gone(const ServicePort& port) const {
    return [this, port = InApiServer(id_, port)] { return IsGone(netns_, mode_, port); };
  }

  // Runs `checks` in order and waits until each check has succeeded. `generation` is the generation
  // id before the update.
  absl::StatusOr<Cost> Await(SteadyTime start, double cpu_before, uint32_t generation,
                             const std::vector<Check>& checks) {
    const SteadyTime deadline = start + settings_.time_limit;
    const bool by_commits = mode_ == KubeProxyMode::kNftables;
    SteadyTime done = start;
    for (auto check = checks.begin(); check != checks.end();) {
      // Read the commits before the rules, so that a commit between the two reads causes another
      // check.
      const CommitWatch::Commits commits = commits_->Seen();
      const SteadyTime now = std::chrono::steady_clock::now();
      if (!by_commits || commits.generation != generation) {
        const absl::StatusOr<bool> held = (*check)();
        if (!held.ok()) return held.status();
        if (*held) {
          done = std::max(done, by_commits ? commits.last : now);
          ++check;
          continue;
        }
        generation = commits.generation;
      }
      if (absl::Status status = StillRuns(); !status.ok()) return status;
      if (now > deadline) {
        return absl::DeadlineExceededError(absl::StrCat("kube-proxy has not programmed it after ",
                                                        settings_.time_limit.count(), " s"));
      }
      std::this_thread::sleep_for(kKubeProxyPoll);
    }
    AwaitTools();
    return Cost{.seconds = std::chrono::duration<double>(done - start).count(),
                .cpu_seconds = CpuSecondsWithChildrenOf(process_->pid()) - cpu_before,
                .peak_rss_kib = Memory().peak_kib};
  }

  // Waits until kube-proxy has no child processes. kube-proxy's CPU time includes a child only
  // after kube-proxy has reaped the child.
  void AwaitTools() const {
    const SteadyTime deadline = std::chrono::steady_clock::now() + kToolPatience;
    while (HasChildren(process_->pid()) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kKubeProxyPoll);
    }
  }

  absl::Status StillRuns() const {
    const std::optional<testing::ExitStatus> exit = process_->Wait(std::chrono::milliseconds(0));
    if (!exit) return absl::OkStatus();
    const std::string err = process_->err();
    return absl::UnavailableError(
        absl::StrCat("kube-proxy ended, ", exit->ToString(), ": ",
                     err.substr(err.size() - std::min(err.size(), kQuotedOfKubeProxy))));
  }

  const testing::NetNs& netns_;
  const OpponentSettings settings_;
  const KubeProxyMode mode_;
  const std::string id_;
  // The order of these members matters, because kube-proxy must exit before the API server is
  // cleared. A running kube-proxy would delete the rules of deleted objects.
  const std::unique_ptr<ApiServer> server_;
  const std::unique_ptr<CommitWatch> commits_;
  std::unique_ptr<testing::ChildProcess> process_;
};

}  // namespace

std::string UniqueBenchId() {
  static std::atomic<int> count{0};
  return absl::StrCat("bench-", ::getpid(), "-", ++count);
}

ServicePort InApiServer(const std::string& id, ServicePort port) {
  port.name_space = id + "-" + port.name_space;
  return port;
}

absl::StatusOr<std::unique_ptr<Opponent>> MakeKubeProxy(const testing::NetNs& netns,
                                                        const OpponentSettings& settings,
                                                        std::string id) {
  if (settings.kube_proxy.empty() || settings.kubeconfig.empty()) {
    return absl::FailedPreconditionError("kube-proxy needs --kube-proxy and --kubeconfig");
  }
  if (settings.kube_proxy_mode != "nftables" && settings.kube_proxy_mode != "iptables") {
    return absl::InvalidArgumentError("kube-proxy mode \"" + settings.kube_proxy_mode +
                                      "\" is not nftables or iptables");
  }
  const auto kubectl =
      testing::RunCommand({.argv = {"kubectl", "version", "--client"}}, settings.time_limit);
  if (!kubectl.ok() || !kubectl->exit.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("kubectl does not run: ",
                     std::string(kubectl.ok() ? kubectl->err : kubectl.status().ToString())));
  }
  auto server = ApiServer::Open(settings.kubeconfig, id, settings.time_limit);
  if (!server.ok()) return server.status();
  auto commits = CommitWatch::Start(netns);
  if (!commits.ok()) return commits.status();
  return std::make_unique<KubeProxy>(netns, settings, std::move(id), *std::move(server),
                                     *std::move(commits));
}

}  // namespace svcmap::bench
