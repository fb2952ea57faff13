#include "tests/bench/opponents/nftables.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "tests/bench/opponents/library_process.h"
#include "tests/bench/opponents/tool_run.h"
#include "tests/support/topology.h"

namespace svcmap::bench {
namespace {

using NftablesClock = std::chrono::steady_clock;

// Executes one transaction.
using TransactionRunner = std::function<absl::StatusOr<ToolRun>(const std::string&)>;

class NftablesOpponent : public Opponent {
 public:
  // `memory` returns the memory of the permanent process.
  NftablesOpponent(NftablesLayout layout, TransactionRunner runner,
                   std::function<ProcessMemory()> memory)
      : layout_(layout), runner_(std::move(runner)), memory_(std::move(memory)) {}

  absl::StatusOr<Cost> Load(const Cluster& cluster) override {
    return Run({NftablesFullSync(Node(), cluster.ports())});
  }

  absl::StatusOr<Cost> Resync(const Cluster& cluster) override {
    return Run({TakeStaleChains(), NftablesResync(Node(), cluster.ports())});
  }

  absl::StatusOr<Cost> Change(const Cluster& cluster,
                              const std::vector<ClusterChange>& changes) override {
    const std::string deletion = TakeStaleChains();
    const NftablesUpdate update = NftablesChange(Node(), cluster.ports(), changes);
    absl::StatusOr<Cost> cost = Run({deletion, update.transaction});
    if (!cost.ok()) return cost;
    for (const std::string& chain : update.filled_chains) stale_.erase(chain);
    for (const std::string& chain : update.stale_chains) stale_[chain] = NftablesClock::now();
    return cost;
  }

  ProcessMemory Memory() const override { return memory_(); }

 private:
  // The node of tests/support/topology.h, with the cluster CIDR that svcmapd uses.
  NftablesNode Node() const {
    return {.ip = *IpAddress::Parse(testing::kNodeV4),
            .cluster_cidr = *IpPrefix::Parse(testing::kClusterCidrV4),
            .service_cidr = *IpPrefix::Parse(testing::kServiceCidrV4),
            .layout = layout_};
  }

  // Returns the transaction that deletes stale chains, or an empty string if no chain is stale.
  std::string TakeStaleChains() {
    const NftablesClock::time_point now = NftablesClock::now();
    std::vector<std::string> chains;
    for (auto chain = stale_.begin(); chain != stale_.end();) {
      const bool old = now - chain->second > std::chrono::seconds(1);
      if (old) chains.push_back(chain->first);
      chain = old ? stale_.erase(chain) : std::next(chain);
    }
    return NftablesDeleteChains(Family::kIpv4, chains);
  }

  // Runs the transactions in order, except for empty transactions.
  absl::StatusOr<Cost> Run(const std::vector<std::string>& transactions) {
    Cost cost{.seconds = 0, .cpu_seconds = 0};
    for (const std::string& transaction : transactions) {
      if (transaction.empty()) continue;
      const absl::StatusOr<ToolRun> run = runner_(transaction);
      if (!run.ok()) return run.status();
      cost.seconds += run->seconds;
      cost.cpu_seconds += run->cpu_seconds;
      cost.peak_rss_kib = std::max(cost.peak_rss_kib, run->peak_rss_kib);
    }
    return cost;
  }

  const NftablesLayout layout_;
  const TransactionRunner runner_;
  const std::function<ProcessMemory()> memory_;
  std::map<std::string, NftablesClock::time_point>
      stale_;  // Stale chains, and the time when each chain became stale.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Opponent>> MakeNftables(NftablesLayout layout,
                                                       const testing::NetNs& netns,
                                                       const OpponentSettings& settings) {
  const absl::StatusOr<ToolRun> works =
      RunTool({"nft", "list", "tables"}, "", netns, settings.time_limit);
  if (!works.ok()) {
    return absl::FailedPreconditionError("nft does not run: " +
                                         std::string(works.status().message()));
  }
  const auto run = [&netns, limit = settings.time_limit](const std::string& transaction) {
    return RunTool({"nft", "-f", "-"}, transaction, netns, limit);
  };
  return std::make_unique<NftablesOpponent>(layout, run, [] { return ProcessMemory(); });
}

absl::StatusOr<std::unique_ptr<Opponent>> MakeNftablesLibrary(const testing::NetNs& netns,
                                                              const OpponentSettings& settings) {
  absl::StatusOr<std::unique_ptr<LibraryProcess>> started =
      LibraryProcess::Start(settings.libnftables, netns, settings.time_limit);
  if (!started.ok()) return started.status();
  const std::shared_ptr<LibraryProcess> process = *std::move(started);
  return std::make_unique<NftablesOpponent>(
      NftablesLayout::kMapPerService,
      [process](const std::string& transaction) { return process->Run(transaction); },
      [process] { return process->Memory(); });
}

}  // namespace svcmap::bench
