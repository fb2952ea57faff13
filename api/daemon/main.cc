// svcmapd: wires the rooms together and waits for the signal to leave.
#include <malloc.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include "api/daemon/lock.h"
#include "api/daemon/manifests_source.h"
#include "api/daemon/options.h"
#include "api/daemon/server.h"
#include "api/preflight/preflight.h"
#include "nft/conntrack/netlink_flow_table.h"
#include "nft/netlink/address_monitor.h"
#include "nft/netlink/watched_kernel.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {
namespace {

double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void SetUpLog(int verbosity) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("svcmapd"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(verbosity == 0   ? spdlog::level::info
                    : verbosity == 1 ? spdlog::level::debug
                                     : spdlog::level::trace);
}

void LogSync(const proxy::SyncResult& result, const proxy::LoopStatus& status) {
  switch (result.outcome) {
    case proxy::SyncResult::Outcome::kNothing:
      return;
    case proxy::SyncResult::Outcome::kFailed:
      spdlog::warn("the kernel did not take a batch: {}; trying again",
                   std::string(result.error.message()));
      return;
    case proxy::SyncResult::Outcome::kCommitted:
      spdlog::log(result.recreated ? spdlog::level::info : spdlog::level::debug,
                  "{} {} elements in {:.2f} ms, revision {}",
                  result.recreated ? "tables written whole:" : "committed", result.elements,
                  Milliseconds(result.duration), status.revision);
      return;
  }
}

void LogCleanup(const proxy::Cleanup& cleanup) {
  const uint64_t deleted = cleanup.deleted[0] + cleanup.deleted[1];
  if (!cleanup.error.ok()) {
    spdlog::warn("stale UDP flows of {} Services could not be cleared: {}; trying again",
                 cleanup.services, std::string(cleanup.error.message()));
  } else {
    spdlog::log(deleted > 0 ? spdlog::level::info : spdlog::level::debug,
                "{} stale UDP flows of {} Services cleared in {:.1f} ms, {} entries looked at",
                deleted, cleanup.services, Milliseconds(cleanup.duration), cleanup.entries);
  }
}

int Fail(const absl::Status& status) {
  spdlog::critical("{}", std::string(status.message()));
  return 1;
}

int CleanUp(const nft::TableSpecs& tables) {
  const absl::StatusOr<std::unique_ptr<nft::NetlinkKernel>> kernel =
      nft::NetlinkKernel::Open(tables);
  if (!kernel.ok()) return Fail(kernel.status());
  nft::Transaction transaction;
  for (const Family family : kFamilies) transaction.DropTable(family);
  const nft::ApplyResult result = (*kernel)->Apply(transaction);
  if (result.outcome != nft::ApplyOutcome::kCommitted) return Fail(result.error);
  spdlog::info("tables ip {0} and ip6 {0} are removed", proxy::kTableName);
  return 0;
}

// Signals are waited for, so no other thread may take them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// A connection takes a descriptor, and gRPC does not recover from having none left.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Run(const DaemonOptions& options) {
  RaiseDescriptorLimit();
  const sigset_t signals = BlockSignals();
  const nft::TableSpecs tables = {proxy::MakeTable(Family::kIpv4, options.ruleset),
                                  proxy::MakeTable(Family::kIpv6, options.ruleset)};
  const absl::StatusOr<UniqueFd> lock = LockNetworkNamespace();
  if (!lock.ok()) return Fail(lock.status());
  if (options.cleanup) return CleanUp(tables);

  const absl::StatusOr<std::vector<Warning>> warnings = Preflight(tables);
  if (!warnings.ok()) return Fail(warnings.status());
  for (const Warning& warning : *warnings) spdlog::warn("{}", warning.ToString());

  // The kernel tells of foreign changes before there is a loop to repair them; those are covered by
  // the first write.
  proxy::Loop* repairing = nullptr;
  std::mutex repairing_mutex;
  const auto on_foreign_change = [&](const nft::ForeignChange& change) {
    const std::lock_guard lock(repairing_mutex);
    if (repairing == nullptr) return;
    spdlog::warn("{}{}{}: writing our tables again", change.text,
                 change.process.empty() ? "" : " by ", change.process);
    repairing->Repair(change.text);
  };
  const absl::StatusOr<std::unique_ptr<nft::WatchedKernel>> kernel =
      nft::WatchedKernel::Open(tables, on_foreign_change);
  if (!kernel.ok()) return Fail(kernel.status());

  proxy::Reconciler reconciler(**kernel,
                               {options.node_name, options.node_port_addresses, options.ruleset});
  const absl::StatusOr<bool> found = reconciler.Adopt();
  if (!found.ok()) return Fail(found.status());
  if (*found) {
    spdlog::info("rules of revision {} serve until the state is complete", reconciler.revision());
  }
  proxy::LoopOptions loop_options;
  loop_options.on_sync = LogSync;
  nft::NetlinkFlowTable flows;
  proxy::CleanerOptions cleaner_options;
  cleaner_options.on_round = LogCleanup;
  proxy::Cleaner cleaner(flows, cleaner_options);
  cleaner.Start();
  loop_options.cleaner = &cleaner;
  proxy::Loop loop(reconciler, loop_options);
  const absl::StatusOr<std::unique_ptr<nft::AddressMonitor>> addresses =
      nft::AddressMonitor::Start([&](std::vector<IpAddress> list) {
        spdlog::debug("{} interface addresses", list.size());
        loop.SetInterfaceAddresses(std::move(list));
      });
  if (!addresses.ok()) return Fail(addresses.status());
  loop.Start(/*hold=*/*found);
  {
    const std::lock_guard lock(repairing_mutex);
    repairing = &loop;
  }

  Intake intake(loop, {options.node_name, options.external_ips});
  ControlService service(loop, intake, tables,
                         {SVCMAP_VERSION, options.node_name, options.manifests, {}});
  absl::Status status;
  {
    const absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start(options.listen, options.insecure, {}, service);
    status = server.status();
    std::unique_ptr<ManifestsSource> manifests;
    if (status.ok() && !options.manifests.empty()) {
      absl::StatusOr<std::unique_ptr<ManifestsSource>> source =
          ManifestsSource::Start(options.manifests, intake);
      status = source.status();
      if (status.ok()) manifests = *std::move(source);
    }
    if (status.ok()) {
      spdlog::info("svcmapd {} on node {}", SVCMAP_VERSION, options.node_name);
      int signal = 0;
      sigwait(&signals, &signal);
      spdlog::info("{}: leaving, the rules stay", strsignal(signal));
    }
    {
      const std::lock_guard lock(repairing_mutex);
      repairing = nullptr;
    }
    loop.Stop();  // Answers what waits, so that the server can end its streams.
  }
  return status.ok() ? 0 : Fail(status);
}

}  // namespace
}  // namespace svcmap::api

int main(int argc, char** argv) {
  // Few arenas: memory that one thread frees is used by the next one.
  mallopt(M_ARENA_MAX, 2);
  const svcmap::api::ParsedOptions parsed = svcmap::api::ParseDaemonOptions(argc, argv);
  if (parsed.exit) return *parsed.exit;
  svcmap::api::SetUpLog(parsed.options.verbosity);
  return svcmap::api::Run(parsed.options);
}
