// svcmapd: creates and connects all components, then waits for a signal to exit.
#include <grpc/grpc.h>
#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <mutex>

#include "absl/strings/numbers.h"
#include "api/daemon/agent_health.h"
#include "api/daemon/clock_watch.h"
#include "api/daemon/kernel_features.h"
#include "api/daemon/kube_proxy_remover.h"
#include "api/daemon/lock.h"
#include "api/daemon/log.h"
#include "api/daemon/manifests_source.h"
#include "api/daemon/metrics_source.h"
#include "api/daemon/options.h"
#include "api/daemon/repeat_lookups.h"
#include "api/daemon/saved_objects.h"
#include "api/daemon/server.h"
#include "api/daemon/stop_guard.h"
#include "api/daemon/sysctls.h"
#include "api/health/server.h"
#include "api/localhost/forwarder.h"
#include "api/log/log_value.h"
#include "api/log/set_up_log.h"
#include "api/preflight/preflight.h"
#include "api/process/config_watch.h"
#include "api/process/fatal.h"
#include "api/process/file_watch.h"
#include "api/process/heap_trim.h"
#include "api/process/notify.h"
#include "nft/base/status.h"
#include "nft/conntrack/netlink_flow_table.h"
#include "nft/netlink/address_monitor.h"
#include "nft/netlink/session.h"
#include "nft/netlink/watched_kernel.h"
#include "proxy/reconcile/loop.h"
#include "proxy/saved/object_store.h"

namespace svcmap::api {
namespace {

int Fail(const absl::Status& status) {
  spdlog::critical("exiting error={}", LogValue(status));
  return 1;
}

absl::Status DropTables(const nft::TableSpecs& tables) {
  const absl::StatusOr<std::unique_ptr<nft::NetlinkKernel>> kernel =
      nft::NetlinkKernel::Open(tables);
  if (!kernel.ok()) return kernel.status();
  nft::Transaction transaction;
  for (const Family family : kFamilies) transaction.DropTable(family);
  return (*kernel)->Apply(transaction).error;
}

int CleanUp(nft::TableSpecs tables, const std::string& state_dir) {
  if (const absl::Status dropped = DropTables(tables); !dropped.ok()) return Fail(dropped);
  for (const Family family : kFamilies) {
    spdlog::info("table deleted family={} table={}", family == Family::kIpv4 ? "ip" : "ip6",
                 proxy::kTableName);
  }
  // An agent that is killed during a comparison leaves its reference tables behind.
  for (nft::TableSpec& table : tables) table.name += nft::NetlinkKernel::kReferenceSuffix;
  if (const absl::Status dropped = DropTables(tables); !dropped.ok()) return Fail(dropped);
  if (state_dir.empty()) return 0;
  const absl::StatusOr<bool> removed = proxy::RemoveSavedState(state_dir);
  if (!removed.ok()) return Fail(removed.status());
  spdlog::info("{} path={}", *removed ? "saved state deleted" : "no saved state found",
               LogValue(state_dir));
  return 0;
}

// Passes foreign changes on to the reconcile loop. Queues foreign changes that arrive before the
// reconcile loop exists. Thread-safe.
class ChangeRelay {
 public:
  void Put(nft::ForeignChange change) {
    const std::lock_guard lock(mutex_);
    if (loop_ != nullptr) {
      loop_->Repair(std::move(change));
    } else {
      early_.push_back(std::move(change));
    }
  }
  void GoTo(proxy::Loop* loop) {
    const std::lock_guard lock(mutex_);
    loop_ = loop;
    if (loop == nullptr) return;
    for (nft::ForeignChange& change : std::exchange(early_, {})) loop->Repair(std::move(change));
  }

 private:
  std::mutex mutex_;
  proxy::Loop* loop_ = nullptr;
  std::vector<nft::ForeignChange> early_;
};

void LogLeaderSaved(const proxy::Leader& leader, const absl::Status& saved) {
  if (saved.ok()) return;
  spdlog::warn("epoch not saved, the epoch will be lost when svcmapd restarts epoch={} error={}",
               leader.epoch, LogValue(saved));
}

// Returns null if --state-dir is empty.
absl::StatusOr<std::unique_ptr<proxy::ObjectStore>> OpenObjectStore(const DaemonOptions& options,
                                                                    proxy::SavedObjects& saved) {
  if (options.state_dir.empty()) return std::unique_ptr<proxy::ObjectStore>();
  proxy::ObjectStoreOptions store_options;
  store_options.writer = std::string("svcmapd ") + SVCMAP_VERSION;
  store_options.on_problem = [](const std::string& problem) {
    spdlog::warn("saved state unusable error={}", LogValue(problem));
  };
  store_options.on_shared_folder = [&options](const std::string& reason) {
    spdlog::warn("other users can change the state directory path={} reason={}",
                 LogValue(options.state_dir), LogValue(reason));
  };
  store_options.on_recovery = [] { spdlog::info("saving state works again"); };
  return proxy::ObjectStore::Open(options.state_dir, std::move(store_options), &saved);
}

// Logs tables that have the name of svcmapd's tables but not svcmapd's marker. The first commit
// replaces such foreign tables.
void WarnAboutForeignTables(nft::Kernel& kernel, const nft::TableSpecs& tables) {
  for (const nft::TableSpec& table : tables) {
    const absl::StatusOr<bool> there = kernel.HasTable(table.family);
    if (!there.ok() || !*there) continue;
    spdlog::warn("foreign table found, it will be replaced family={} table={}",
                 table.family == Family::kIpv4 ? "ip" : "ip6", table.name);
  }
}

// Writes the sysctls and the OOM score that --config sets.
absl::Status ApplyToKernel(const KubeProxyConfiguration& config) {
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  const absl::StatusOr<std::vector<std::string>> warnings =
      WriteSysctls(DesiredSysctls(config, cpus));
  if (!warnings.ok()) return warnings.status();
  for (const std::string& warning : *warnings) {
    spdlog::warn("sysctl not set error={}", LogValue(warning));
  }
  const absl::Status scored = WriteOomScoreAdj(config.oom_score_adj);
  if (absl::IsPermissionDenied(scored)) {
    // A container without CAP_SYS_RESOURCE keeps the value that the kubelet has set.
    spdlog::info("oomScoreAdj not set error={}", LogValue(scored));
  } else if (!scored.ok()) {
    spdlog::warn("oomScoreAdj not set error={}", LogValue(scored));
  }
  return absl::OkStatus();
}

// Checks the node and writes kernel settings. Must run before svcmapd programs any rules.
absl::Status Prepare(const DaemonOptions& options, const nft::TableSpecs& tables) {
  const absl::StatusOr<std::vector<Warning>> warnings = Preflight(tables);
  if (!warnings.ok()) return warnings.status();
  for (const Warning& warning : *warnings) {
    spdlog::warn("node check problem={} remedy={}", LogValue(warning.what),
                 LogValue(warning.remedy));
  }
  return options.config ? ApplyToKernel(options.config->config) : absl::OkStatus();
}

// Returns an error if a socket is in use, or if a file cannot be read.
absl::Status CheckInputs(const DaemonOptions& options) {
  if (absl::Status listeners = Server::Check(options.listeners); !listeners.ok()) return listeners;
  if (options.manifests.empty()) return absl::OkStatus();
  return Annotate(FileWatch::Open(options.manifests).status(), "--manifests");
}

// Blocks signals in all threads, because the main thread receives signals with sigwait.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Raises the file descriptor limit, because every connection needs a descriptor and gRPC does not
// recover if no descriptor is left. Returns the number of descriptors that svcmapd may use.
size_t RaiseDescriptorLimit() {
  constexpr rlim_t kUsual = 1024;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUsual;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
}

// Limits health check connections to a quarter of the descriptors. Another quarter is for
// controllers, netlink and files. The sockets that listen on healthCheckNodePorts get the remaining
// half, or a quarter if nodePorts on loopback addresses are enabled.
void ShareDescriptors(size_t descriptors, bool localhost, HealthServerOptions& health) {
  health.max_service_sockets = descriptors / (localhost ? 4 : 2);
  health.max_connections = std::min(health.max_connections, std::max<size_t>(descriptors / 4, 1));
}

// Limits the sockets that listen on loopback addresses to an eighth of the descriptors, and the
// forwarded connections to another eighth.
LocalhostForwarderOptions ForwarderOptions(size_t descriptors) {
  LocalhostForwarderOptions options;
  options.max_listeners = descriptors / 8;
  options.max_connections =
      std::clamp<size_t>(descriptors / 8 / kDescriptorsPerConnection, 1, kMaxForwardedConnections);
  return options;
}

// Returns the loopback addresses on which nodePorts accept connections.
std::vector<IpAddress> LocalhostAddresses(const DaemonOptions& options) {
  std::vector<IpAddress> listed = proxy::ListedLoopbackAddresses(options.node_port_addresses);
  if (options.localhost_node_ports && listed.empty()) {
    spdlog::warn(
        "the feature gate {} and the flag --localhost-nodeports have no effect unless "
        "nodePortAddresses contains \"localhost\" or a loopback CIDR with 127.0.0.1 or ::1",
        kLocalhostNodePortsGate);
  } else if (!options.localhost_node_ports && !listed.empty()) {
    spdlog::warn(
        "loopback addresses in nodePortAddresses have no effect without the feature gate {} or the "
        "flag --localhost-nodeports",
        kLocalhostNodePortsGate);
    listed.clear();
  }
  return listed;
}

constexpr char kReadyStatus[] = "Programming Services";

std::string SignalName(int signal) { return std::string("SIG") + sigabbrev_np(signal); }

// Waits for SIGTERM or SIGINT. SIGHUP starts a comparison of all tables in the kernel with the
// desired state. Returns an error if the configuration file has changed and svcmapd must be
// restarted. `config` may be null. Calls `every_second`, which must not wait for the disk, because
// signals are not handled in the meantime.
absl::Status AwaitEnd(const sigset_t& signals, proxy::Loop& loop, const ConfigWatch* config,
                      const std::function<void()>& every_second) {
  constexpr timespec kSecond = {.tv_sec = 1, .tv_nsec = 0};
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &kSecond);
    if (signal < 0) {
      every_second();
      continue;
    }
    if (signal != SIGHUP && config != nullptr && config->changed()) {
      NotifyStopping("Exiting because the configuration file has changed");
      return absl::AbortedError(
          "configuration file changed: svcmapd must be restarted to use the new file; rules stay "
          "in effect");
    }
    if (signal != SIGHUP) {
      spdlog::info("exiting, rules stay in effect signal={}", SignalName(signal));
      NotifyStopping("Exiting, rules stay in effect");
      return absl::OkStatus();
    }
    spdlog::info("full comparison with the kernel started signal=SIGHUP");
    NotifyReloading("Comparing the tables in the kernel with the desired state");
    loop.Repair({.lost = true, .text = "full comparison requested", .process = "SIGHUP"});
    NotifyReady(kReadyStatus);
  }
}

// SVCMAP_TEST_KUBE_PROXY_ABSENCE_MS shortens the wait of 30 s in tests. Do not set this variable in
// production.
std::chrono::milliseconds AbsenceOfKubeProxy() {
  const char* text = std::getenv("SVCMAP_TEST_KUBE_PROXY_ABSENCE_MS");
  int64_t milliseconds = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &milliseconds)) return KubeProxyRemover::kAbsence;
  return std::chrono::milliseconds(milliseconds);
}

int Run(DaemonOptions options) {
  const size_t descriptors = RaiseDescriptorLimit();
  const sigset_t signals = BlockSignals();
  std::optional<StartGuard> starting(std::in_place);
  DropHashPicksIfUnsupported(options.ruleset);
  DropCountersIfRejected(options.ruleset);
  options.ruleset.tcp_resets = ChooseTcpResets();
  utsname kernel_names = {};
  uname(&kernel_names);
  options.ruleset.repeat_lookups =
      options.repeat_lookups.value_or(CanMissReplacedKeys(kernel_names.release));
  options.ruleset.rules_in_use.resets = options.reset_stale_tcp;
  const nft::TableSpecs tables = proxy::MakeTables(options.ruleset);
  if (options.preflight) {
    const std::string report = NodeReportJson(ReportNode(tables));
    return std::fputs(report.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : 1;
  }
  if (options.init_only) {
    const absl::Status prepared = Prepare(options, tables);
    return prepared.ok() ? 0 : Fail(prepared);
  }
  absl::StatusOr<UniqueFd> lock = LockNetworkNamespace();
  if (!lock.ok()) {
    // Runs the preflight checks, because their errors name the missing capability or kernel module.
    if (!absl::IsAlreadyExists(lock.status()) && !options.cleanup) {
      const absl::Status prepared = Prepare(options, tables);
      if (!prepared.ok()) return Fail(prepared);
    }
    return Fail(lock.status());
  }
  if (options.cleanup) {
    const int exit_code = CleanUp(tables, options.state_dir);
    if (exit_code != 0 || !options.stay) return exit_code;
    *lock = UniqueFd();  // Another svcmapd may start.
    starting.reset();
    spdlog::info("cleanup complete, waiting for SIGTERM");
    int signal = SIGHUP;
    while (signal == SIGHUP) sigwait(&signals, &signal);
    return 0;
  }

  // Errors in the options must not become known only after svcmapd has written the tables.
  if (const absl::Status usable = CheckInputs(options); !usable.ok()) return Fail(usable);
  if (const absl::Status prepared = Prepare(options, tables); !prepared.ok()) return Fail(prepared);
  spdlog::info("missed lookups of Service addresses are {} kernel={} reason={}",
               options.ruleset.repeat_lookups ? "repeated" : "not repeated",
               LogValue(kernel_names.release),
               options.repeat_lookups ? "--repeat-lookups" : "\"kernel version\"");

  // Queues foreign changes until the reconcile loop exists, because notifications start earlier.
  ChangeRelay changes;
  nft::WatchedKernelOptions kernel_options;
  // Limits the time that a commit waits while other processes change the ruleset continuously.
  kernel_options.session.dump_attempts = 2;
  const absl::StatusOr<std::unique_ptr<nft::WatchedKernel>> kernel = nft::WatchedKernel::Open(
      tables, [&](nft::ForeignChange change) { changes.Put(std::move(change)); },
      std::move(kernel_options));
  if (!kernel.ok()) return Fail(kernel.status());
  // A session of its own, because the kernel returns the generation id without waiting for a commit
  // in progress (NFT_MSG_GETGEN under RCU, Linux 4.12 and later).
  absl::StatusOr<nft::Session> generation = nft::Session::Open({});
  if (!generation.ok()) return Fail(generation.status());
  std::mutex generation_mutex;

  const ConvertContext convert{options.node_name, options.external_ips};
  proxy::SavedObjects saved;
  const absl::StatusOr<std::unique_ptr<proxy::ObjectStore>> disk = OpenObjectStore(options, saved);
  if (!disk.ok()) return Fail(disk.status());
  const std::vector<IpAddress> localhost = LocalhostAddresses(options);
  proxy::ReconcilerOptions reconciler_options{options.node_name, options.node_port_addresses,
                                              options.ruleset, options.reset_stale_tcp};
  for (const IpAddress& address : localhost) {
    reconciler_options.localhost_node_ports[Index(address.family())] = true;
  }
  reconciler_options.max_elements = options.state_limits.elements;
  proxy::Reconciler reconciler(**kernel, std::move(reconciler_options), disk->get());
  const absl::StatusOr<proxy::AdoptedState> beginning = reconciler.Adopt(saved);
  if (!beginning.ok()) return Fail(beginning.status());
  if (*beginning == proxy::AdoptedState::kUnknown && !saved.objects.empty()) {
    spdlog::warn("saved state ignored: it does not belong to the tables in the kernel path={}",
                 LogValue(options.state_dir));
  }
  if (*beginning == proxy::AdoptedState::kNothing) WarnAboutForeignTables(**kernel, tables);
  LogBeginning(*beginning, reconciler.revision());
  const proxy::Received received =
      proxy::ReceivedAtStart(*beginning, saved.partial, !saved.objects.empty());
  if (received == proxy::Received::kPartial) {
    spdlog::info(
        "the previous run ended before it received a complete state, waiting for a complete state "
        "objects={}",
        saved.objects.size());
  }
  if (received == proxy::Received::kPartial || received == proxy::Received::kStored) {
    ApplySavedObjects(saved.objects, convert, reconciler.store());
  }
  const proxy::Leader leader = std::exchange(saved, {}).leader;

  proxy::LoopOptions loop_options;
  RepairLog repairs;
  HealthServer* health_checks = nullptr;  // Set before the reconcile loop starts.
  loop_options.on_health_checks = [&](proxy::HealthCheckChanges checks) {
    health_checks->Update(std::move(checks));
  };
  loop_options.on_health_check_addresses = [&](std::vector<IpAddress> addresses) {
    health_checks->SetListenAddresses(std::move(addresses));
  };
  std::optional<LocalhostForwarder> forwarder;
  if (!localhost.empty()) {
    forwarder.emplace(ForwarderOptions(descriptors));
    loop_options.on_localhost_node_ports = [&](proxy::LocalhostNodePortChanges changes) {
      forwarder->Update(std::move(changes));
    };
  }
  WatchHub watches;
  Observations observations;
  HeapTrim heap_trim;
  const auto return_space = [&] {
    heap_trim.AfterChange(reconciler.store().bytes());
  };
  loop_options.on_sync = [&](const proxy::SyncResult& result, const proxy::LoopStatus& status) {
    observations.Synced(result);
    LogSync(result, status);
    watches.PublishSync(result, status.revision);
  };
  loop_options.on_answered = [&](const proxy::SyncResult& result) {
    heap_trim.AfterSync(result.elements);
    return_space();
  };
  loop_options.on_stored = return_space;
  loop_options.on_repair = [&](const proxy::Repaired& repaired) {
    repairs.Add(repaired);
    watches.PublishRepair(repaired);
  };
  loop_options.on_programmed = [&](Family family, std::chrono::nanoseconds took) {
    observations.Programmed(family, took);
  };
  nft::NetlinkFlowTable flows;
  proxy::CleanerOptions cleaner_options;
  cleaner_options.on_round = [&](const proxy::Cleanup& cleanup) {
    observations.Cleaned(cleanup);
    LogCleanup(cleanup);
  };
  proxy::Cleaner cleaner(flows, cleaner_options);
  cleaner.Start();
  loop_options.cleaner = &cleaner;
  loop_options.limits = options.state_limits;
  loop_options.hold_removals = options.hold_removals;
  proxy::Loop loop(reconciler, loop_options);
  const absl::StatusOr<std::unique_ptr<nft::AddressMonitor>> addresses =
      nft::AddressMonitor::Start([&](NodeAddresses node) {
        spdlog::debug("interface addresses or gateways changed addresses={} gateways={}",
                      node.interfaces.size(), node.gateways.size());
        loop.SetInterfaceAddresses(std::move(node));
      });
  if (!addresses.ok()) return Fail(addresses.status());
  // The systemd watchdog is notified only while the reconcile loop makes progress.
  Watchdog watchdog([&loop, turns = uint64_t{0}]() mutable {
    return std::exchange(turns, loop.Turn()) != turns;
  });
  HealthServerOptions health_options;
  health_options.bind_address = options.healthz_bind_address;
  health_options.bind_hard_fail = options.bind_address_hard_fail;
  health_options.health = [&] {
    return HealthOf(loop.status(), (*kernel)->WatcherAlive(), options);
  };
  health_options.on_answer = [&](const std::string& path, int code) {
    observations.Answered(path, code);
  };
  ShareDescriptors(descriptors, forwarder.has_value(), health_options);
  health_options.tick = watchdog.interval();
  health_options.on_tick = [&] { watchdog.Ping(); };
  const absl::StatusOr<std::unique_ptr<HealthServer>> health =
      HealthServer::Start(std::move(health_options));
  if (!health.ok()) return Fail(health.status());
  health_checks = health->get();

  Intake intake(loop, convert, [&](const auto& findings) { watches.PublishFindings(findings); });
  ControlService service(
      loop, intake, watches, tables,
      {.version = SVCMAP_VERSION,
       .node_name = options.node_name,
       .manifests_path = options.manifests,
       .limits = options.push_limits,
       .watching = [&] { return (*kernel)->WatcherAlive(); },
       .kernel_generation =
           [&] {
             const std::lock_guard lock(generation_mutex);
             return generation->Generation();
           },
       .disk = disk->get(),
       .state_dir = options.state_dir,
       .leader = leader,
       .save_leader =
           [&](const proxy::Leader& session) {
             if (*disk != nullptr) LogLeaderSaved(session, (*disk)->SaveLeader(session));
           }});
  const absl::StatusOr<std::unique_ptr<proxy::ConnectionReader>> connections =
      OpenConnectionReader(options.ruleset, loop);
  if (!connections.ok()) return Fail(connections.status());
  absl::Status status;
  {
    // The metrics server starts first, because svcmapd exits if the bind fails and
    // --bind-address-hard-fail is set.
    const absl::StatusOr<std::unique_ptr<PageServer>> metrics =
        ServeMetrics({options, loop, cleaner, **kernel, disk->get(), intake, service,
                      connections->get(), forwarder ? &*forwarder : nullptr},
                     tables, observations);
    status = metrics.status();
    // There is no matching grpc_shutdown(), so gRPC's threads run until the process exits.
    // Otherwise, the last grpc::Server would wait for a thread that polls for 10 s after a large
    // response.
    grpc_init();
    std::unique_ptr<Server> server;
    if (status.ok()) {
      loop.Start(received);
      changes.GoTo(&loop);
      absl::StatusOr<std::unique_ptr<Server>> started =
          Server::Start(options.listeners, options.push_limits, service);
      status = started.status();
      if (status.ok()) server = *std::move(started);
    }
    std::unique_ptr<ManifestsSource> manifests;
    if (status.ok() && !options.manifests.empty()) {
      absl::StatusOr<std::unique_ptr<ManifestsSource>> source =
          ManifestsSource::Start(options.manifests, intake);
      status = Annotate(source.status(), "--manifests");
      if (status.ok()) manifests = *std::move(source);
    }
    std::unique_ptr<ConfigWatch> config;
    if (status.ok() && options.config) {
      absl::StatusOr<std::unique_ptr<ConfigWatch>> watch = ConfigWatch::Start(*options.config);
      status = watch.status();
      if (status.ok()) config = *std::move(watch);
    }
    std::optional<KubeProxyRemover> remover;
    if (status.ok() && options.remove_kube_proxy) {
      remover.emplace([&] { return loop.status(); }, AbsenceOfKubeProxy());
    }
    if (status.ok()) {
      spdlog::info("svcmapd started version={} node={}", SVCMAP_VERSION,
                   LogValue(options.node_name));
      starting.reset();
      NotifyReady(kReadyStatus);
      ClockWatch clock;
      status = AwaitEnd(signals, loop, config.get(), [&] {
        clock.Check();
        if (heap_trim.TakeDue()) malloc_trim(0);
        intake.log_limit().Report();
      });
    }
    StartExitGuard();
    loop.Stop();  // Answers pending batches, so that the gRPC server can close its streams.
    // Only now: the loop saves that no foreign change is unchecked, so it must receive all of them.
    changes.GoTo(nullptr);
    watches.End();
    if (*disk != nullptr) (*disk)->Stop();
  }
  return status.ok() ? 0 : Fail(status);
}

}  // namespace
}  // namespace svcmap::api

int main(int argc, char** argv) {
  svcmap::api::LogFatalErrors("svcmapd");
  // With few malloc arenas, threads reuse memory that other threads have freed.
  mallopt(M_ARENA_MAX, 2);
  const svcmap::api::ParsedOptions parsed = svcmap::api::ParseDaemonOptions(argc, argv);
  if (parsed.exit) return *parsed.exit;
  svcmap::api::SetUpLog(parsed.options.verbosity);
  if (parsed.options.config) {
    for (const std::string& finding : parsed.options.config->findings) {
      spdlog::info("finding in the configuration file path={} finding={}",
                   svcmap::api::LogValue(parsed.options.config->path),
                   svcmap::api::LogValue(finding));
    }
  }
  return svcmap::api::Run(parsed.options);
}
