// The agent: all parts of svcmapd that run at the same time, and the connections between them. The
// members are in the order in which the parts start. Destruction in reverse order ensures that no
// part uses a destroyed part.
#pragma once

#include <signal.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/convert/convert.h"
#include "api/daemon/kube_proxy_remover.h"
#include "api/daemon/log.h"
#include "api/daemon/manifests_source.h"
#include "api/daemon/options.h"
#include "api/daemon/server.h"
#include "api/grpc/control_service.h"
#include "api/grpc/watch_hub.h"
#include "api/health/server.h"
#include "api/intake/intake.h"
#include "api/localhost/forwarder.h"
#include "api/metrics/facts.h"
#include "api/metrics/server.h"
#include "api/process/clock_watch.h"
#include "api/process/file_watch.h"
#include "api/process/heap_trim.h"
#include "api/process/notify.h"
#include "nft/conntrack/netlink_flow_table.h"
#include "nft/netlink/address_monitor.h"
#include "nft/netlink/session.h"
#include "nft/netlink/watched_kernel.h"
#include "proxy/connections/service_connections.h"
#include "proxy/conntrack/cleaner.h"
#include "proxy/reconcile/loop.h"
#include "proxy/reconcile/reconciler.h"
#include "proxy/saved/object_store.h"

namespace svcmap::api {

class Agent {
 public:
  // `tables` are the tables of options.ruleset. `descriptors` is the number of file descriptors
  // that svcmapd may use.
  Agent(DaemonOptions options, nft::TableSpecs tables, size_t descriptors);

  // Restores the saved state and starts all parts.
  absl::Status Start();
  // Notifies systemd and waits for SIGTERM or SIGINT. SIGHUP starts a comparison of all tables in
  // the kernel with the desired state. Returns an error if the configuration file has changed and
  // svcmapd must be restarted. The signals must be blocked in all threads.
  absl::Status Wait(const sigset_t& signals);
  // Answers pending batches and syncs the saved state. The rules stay in effect. Call Stop before
  // the destructor, even if Start has failed.
  void Stop();

 private:
  // Passes the changes that other processes make to svcmap's tables on to the reconcile loop.
  // Queues changes that are reported before the reconcile loop exists. Thread-safe.
  class ChangeRelay {
   public:
    void Put(nft::ForeignChange change);
    void GoTo(proxy::Loop* loop);

   private:
    std::mutex mutex_;
    proxy::Loop* loop_ = nullptr;
    std::vector<nft::ForeignChange> early_;
  };

  // Steps of Start().
  absl::Status Open(proxy::SavedObjects& saved);
  absl::StatusOr<proxy::Received> Adopt(const proxy::SavedObjects& saved);
  void RestoreObjects(const std::vector<proxy::SavedObject>& objects);
  void StartForwarder();
  void CreateLoop();
  absl::Status WatchNode();
  absl::Status Serve(proxy::Received received, const proxy::Leader& leader);
  absl::Status ServeMetrics();

  // Callbacks.
  void OnSync(const proxy::SyncResult& result, const proxy::LoopStatus& status);
  void OnRepair(const proxy::RepairResult& result);
  void OnCleanup(const proxy::Cleanup& cleanup);
  void OnAddresses(NodeAddresses node);
  proxy::StaleConnections FindStale(std::span<const nft::Flow> flows);
  bool MakesProgress();
  // `watching` is true if the kernel notifies svcmapd when another process changes its tables.
  proxy::Health Health(const proxy::LoopStatus& status, bool watching) const;
  // Values of the metrics. Runs on the metrics server's thread for each scrape. Only reading the
  // connection counters can block, for a bounded time.
  MetricsFacts Facts();
  absl::StatusOr<uint32_t> KernelGeneration();
  void SaveLeader(const proxy::Leader& leader);

  const DaemonOptions options_;
  const nft::TableSpecs tables_;
  const size_t descriptors_;
  const ConvertContext convert_{options_.node_name, options_.external_ips};
  ClockWatch clock_;  // Also detects changes of the clock during the start.
  Observations observations_;
  RepairLog repairs_;
  HeapTrim heap_trim_;
  WatchHub watches_;
  ChangeRelay changes_;
  std::unique_ptr<nft::WatchedKernel> kernel_;
  // A separate session, because the kernel returns the generation ID without waiting for a commit
  // in progress (NFT_MSG_GETGEN under RCU, Linux 4.12 and later).
  std::mutex generation_mutex_;
  std::optional<nft::Session> generation_;
  std::unique_ptr<proxy::ObjectStore> disk_;  // Null if --state-dir is empty.
  std::optional<proxy::Reconciler> reconciler_;
  std::optional<LocalhostForwarder> forwarder_;  // Absent unless loopback addresses have nodePorts.
  nft::NetlinkFlowTable flows_;
  proxy::Cleaner cleaner_{
      flows_,
      {.find = [this](std::span<const nft::Flow> flows) { return FindStale(flows); },
       .on_round = [this](const proxy::Cleanup& cleanup) { OnCleanup(cleanup); }}};
  std::optional<proxy::Loop> loop_;
  std::unique_ptr<nft::AddressMonitor> addresses_;
  // The systemd watchdog is notified only while the reconcile loop makes progress.
  Watchdog watchdog_{[this] { return MakesProgress(); }};
  uint64_t turns_ = 0;  // Turns of the loop at the last call of MakesProgress().
  std::unique_ptr<HealthServer> health_;
  std::optional<Intake> intake_;
  std::optional<ControlService> service_;
  std::unique_ptr<proxy::ConnectionReader> connections_;  // Null if connections are not counted.
  std::unique_ptr<PageServer> metrics_;                   // Null if metrics are disabled.
  std::unique_ptr<Server> server_;
  std::unique_ptr<ManifestsSource> manifests_;  // Null without --manifests.
  std::unique_ptr<ConfigWatch> config_;         // Null without --config.
  std::optional<KubeProxyRemover> remover_;     // Absent without --remove-kube-proxy.
};

}  // namespace svcmap::api
