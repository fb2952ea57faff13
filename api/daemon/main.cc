// svcmapd: parses the options, prepares the node, and runs the agent until a signal arrives.
#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <stop_token>
#include <thread>

#include "api/daemon/agent.h"
#include "api/daemon/kernel.h"
#include "api/daemon/lock.h"
#include "api/daemon/options.h"
#include "api/daemon/server.h"
#include "api/log/log_value.h"
#include "api/log/set_up_log.h"
#include "api/preflight/preflight.h"
#include "api/process/fatal.h"
#include "api/process/file_watch.h"
#include "nft/base/status.h"
#include "nft/netlink/netlink_kernel.h"
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

// Blocks signals in all threads, because GuardStart() and the main thread receive signals with
// sigwait. Returns the signals for the main thread.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigset_t blocked = signals;
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Until the thread is stopped, SIGTERM and SIGINT end the process with status 0, even if a file
// system or a lock blocks the start forever. The state on disk is always consistent, so the process
// may end at any time. A signal that arrives later stays pending for the main thread.
std::jthread GuardStart() {
  return std::jthread([](const std::stop_token& stop) {
    const std::stop_callback wake(stop, [self = pthread_self()] { pthread_kill(self, SIGUSR1); });
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, signal);
    int signal = 0;
    do {
      sigwait(&signals, &signal);
    } while (signal == SIGUSR1 && !stop.stop_requested());  // Other processes can send SIGUSR1.
    if (signal == SIGUSR1) return;
    spdlog::info("exiting during start, rules stay in effect");
    spdlog::default_logger()->flush();
    _exit(0);  // Skips destructors, because another thread may be blocked forever.
  });
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

int Run(DaemonOptions options) {
  const size_t descriptors = RaiseDescriptorLimit();
  const sigset_t signals = BlockSignals();
  std::jthread starting = GuardStart();
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
    starting = std::jthread();
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

  Agent agent(std::move(options), tables, descriptors);
  absl::Status status = agent.Start();
  if (status.ok()) {
    starting = std::jthread();
    status = agent.Wait(signals);
  }
  const int exit_code = status.ok() ? 0 : Fail(status);
  agent.Stop();
  return exit_code;
}

}  // namespace
}  // namespace svcmap::api

int main(int argc, char** argv) {
  svcmap::api::LogFatalErrors("svcmapd");
  // With few malloc arenas, threads reuse memory that other threads have freed.
  mallopt(M_ARENA_MAX, 2);
  const auto parsed = svcmap::api::ParseDaemonOptions(argc, argv);
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
