#include "api/daemon/agent.h"

#include <grpc/grpc.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "api/config/kube_proxy_config.h"
#include "api/daemon/kernel.h"
#include "api/log/log_value.h"
#include "nft/base/status.h"
#include "nft/netlink/await_packets.h"
#include "proxy/conntrack/stale_connections.h"

namespace svcmap::api {
namespace {

constexpr char kReadyStatus[] = "Programming Services";

// svcmapd checks a foreign change within milliseconds. /healthz fails only if the tables stay
// unverified for longer than this time.
constexpr std::chrono::seconds kUnverifiedFor{2};

// Shorter than the 8 s in docs/security.md, because two log lines take up to 100 ms each and the
// kernel needs time to release the memory of the process. systemd and the kubelet kill the agent
// later.
constexpr std::chrono::seconds kExitTimeout{7};

// Ends the process with status 1 if the process is still running after kExitTimeout. Needs its own
// thread, because a hung disk may block all other threads. The state on disk is always consistent.
void StartExitGuard() {
  std::thread([] {
    std::this_thread::sleep_for(kExitTimeout);
    spdlog::error("shutdown timed out, exiting before the state file is synced timeout_s={}",
                  kExitTimeout.count());
    spdlog::default_logger()->flush();
    _exit(1);
  }).detach();
}

// Moves the value of `started` to `part`, or returns the error.
template <typename T, typename Part>
absl::Status Keep(absl::StatusOr<T> started, Part& part) {
  if (started.ok()) part = *std::move(started);
  return started.status();
}

// Returns null if --state-dir is empty.
absl::StatusOr<std::unique_ptr<proxy::ObjectStore>> OpenObjectStore(const DaemonOptions& options,
                                                                    proxy::SavedObjects& saved) {
  if (options.state_dir.empty()) return std::unique_ptr<proxy::ObjectStore>();
  proxy::ObjectStoreOptions store_options;
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

// SVCMAP_TEST_KUBE_PROXY_ABSENCE_MS shortens the wait of 30 s in tests. Do not set this variable in
// production.
std::chrono::milliseconds AbsenceOfKubeProxy() {
  const char* text = std::getenv("SVCMAP_TEST_KUBE_PROXY_ABSENCE_MS");
  int64_t milliseconds = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &milliseconds)) return KubeProxyRemover::kAbsence;
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace

void Agent::ChangeRelay::Put(nft::ForeignChange change) {
  const std::lock_guard lock(mutex_);
  if (loop_ != nullptr) {
    loop_->Repair(std::move(change));
  } else {
    early_.push_back(std::move(change));
  }
}

void Agent::ChangeRelay::GoTo(proxy::Loop* loop) {
  const std::lock_guard lock(mutex_);
  loop_ = loop;
  if (loop == nullptr) return;
  for (nft::ForeignChange& change : std::exchange(early_, {})) loop->Repair(std::move(change));
}

Agent::Agent(DaemonOptions options, nft::TableSpecs tables, size_t descriptors)
    : options_(std::move(options)), tables_(std::move(tables)), descriptors_(descriptors) {}

absl::Status Agent::Start() {
  proxy::SavedObjects saved;
  absl::Status status = Open(saved);
  if (!status.ok()) return status;
  const absl::StatusOr<proxy::Received> received = Adopt(saved);
  if (!received.ok()) return received.status();
  const proxy::Leader leader = std::exchange(saved, {}).leader;
  CreateLoop();
  status = WatchNode();
  if (status.ok()) status = Serve(*received, leader);
  return status;
}

absl::Status Agent::Open(proxy::SavedObjects& saved) {
  nft::WatchedKernelOptions kernel_options;
  // Limits the time that a commit waits while other processes change the ruleset continuously.
  kernel_options.session.dump_attempts = 2;
  absl::Status status =
      Keep(nft::WatchedKernel::Open(tables_, std::bind_front(&ChangeRelay::Put, &changes_),
                                    std::move(kernel_options)),
           kernel_);
  if (status.ok()) status = Keep(nft::Session::Open({}), generation_);
  if (status.ok()) status = Keep(OpenObjectStore(options_, saved), disk_);
  return status;
}

absl::StatusOr<proxy::Received> Agent::Adopt(const proxy::SavedObjects& saved) {
  proxy::ReconcilerOptions options{options_.node_name, options_.node_port_addresses,
                                   options_.ruleset, options_.reset_stale_tcp};
  std::vector<IpAddress> localhost;
  if (options_.localhost_node_ports) {
    localhost = proxy::ListedLoopbackAddresses(options_.node_port_addresses);
  }
  for (const IpAddress& address : localhost) {
    options.localhost_node_ports[Index(address.family())] = true;
  }
  options.max_elements = options_.state_limits.elements;
  options.await_packets = nft::AwaitPackets;
  reconciler_.emplace(*kernel_, std::move(options), disk_.get());
  const absl::StatusOr<proxy::Received> adopted = reconciler_->Adopt(saved);
  if (!adopted.ok()) return adopted;
  const proxy::Received received = *adopted;
  if (received == proxy::Received::kPreviousRules && !saved.objects.empty()) {
    spdlog::warn("saved state ignored: it does not belong to the tables in the kernel path={}",
                 LogValue(options_.state_dir));
  }
  if (received == proxy::Received::kNothing && reconciler_->revision() == 0) {
    WarnAboutForeignTables(*kernel_, tables_);
  } else {
    spdlog::info(
        "{} revision={}",
        received == proxy::Received::kPreviousRules
            ? "tables in the kernel will not be modified until a complete state is received"
            : "saved state found, comparing the tables in the kernel with it",
        reconciler_->revision());
  }
  if (received == proxy::Received::kPartial) {
    spdlog::info(
        "the previous run ended before it received a complete state, waiting for a complete state "
        "objects={}",
        saved.objects.size());
  }
  if (received == proxy::Received::kPartial || received == proxy::Received::kStored) {
    RestoreObjects(saved.objects);
  }
  if (!localhost.empty()) StartForwarder();
  return received;
}

// Skips objects that cannot be parsed or that this version rejects.
void Agent::RestoreObjects(const std::vector<proxy::SavedObject>& objects) {
  for (const proxy::SavedObject& saved : objects) {
    ConvertedChange converted = ConvertObject(saved.kind, *saved.message, convert_);
    if (!converted.change) {
      spdlog::warn("saved object rejected, skipped kind={} name={} error={}", KindName(saved.kind),
                   LogValue(saved.key), LogValue(converted.findings.front().ToString()));
      continue;
    }
    if (saved.kind == proxy::Kind::kService) converted.change->first_seen = saved.first_seen;
    reconciler_->store().Apply(*converted.change, 0);
  }
  reconciler_->store().TakeTouched();  // These objects are saved.
}

// Limits the sockets that listen on loopback addresses to an eighth of the descriptors, and the
// forwarded connections to another eighth.
void Agent::StartForwarder() {
  LocalhostForwarderOptions options;
  options.max_listeners = descriptors_ / 8;
  options.max_connections =
      std::clamp<size_t>(descriptors_ / 8 / kDescriptorsPerConnection, 1, kMaxForwardedConnections);
  forwarder_.emplace(options);
}

void Agent::CreateLoop() {
  cleaner_.Start();
  proxy::LoopOptions options;
  options.on_sync = std::bind_front(&Agent::OnSync, this);
  options.on_repair = std::bind_front(&Agent::OnRepair, this);
  options.limits = options_.state_limits;
  options.hold_removals = options_.hold_removals;
  loop_.emplace(*reconciler_, std::move(options));
}

absl::Status Agent::WatchNode() {
  absl::Status status =
      Keep(nft::AddressMonitor::Start(std::bind_front(&Agent::OnAddresses, this)), addresses_);
  if (!status.ok()) return status;
  HealthServerOptions options;
  options.bind_address = options_.healthz_bind_address;
  options.bind_hard_fail = options_.bind_address_hard_fail;
  options.health = [this] { return Health(loop_->status(), kernel_->WatcherAlive()); };
  options.on_answer = std::bind_front(&Observations::Answered, &observations_);
  // Limits health check connections to a quarter of the descriptors. Another quarter is for
  // controllers, netlink and files. The sockets that listen on healthCheckNodePorts get the
  // remaining half, or a quarter if nodePorts on loopback addresses are enabled.
  options.max_connections =
      std::min(options.max_connections, std::max<size_t>(descriptors_ / 4, 1));
  options.max_service_sockets = descriptors_ / (forwarder_ ? 4 : 2);
  options.tick = watchdog_.interval();
  options.on_tick = std::bind_front(&Watchdog::Ping, &watchdog_);
  return Keep(HealthServer::Start(std::move(options)), health_);
}

absl::Status Agent::Serve(proxy::Received received, const proxy::Leader& leader) {
  intake_.emplace(*loop_, convert_, std::bind_front(&WatchHub::PublishFindings, &watches_));
  service_.emplace(
      *loop_, *intake_, watches_, tables_,
      ControlOptions{.version = SVCMAP_VERSION,
                     .node_name = options_.node_name,
                     .manifests_path = options_.manifests,
                     .limits = options_.push_limits,
                     .watching = std::bind_front(&nft::WatchedKernel::WatcherAlive, kernel_.get()),
                     .kernel_generation = std::bind_front(&Agent::KernelGeneration, this),
                     .disk = disk_.get(),
                     .state_dir = options_.state_dir,
                     .leader = leader,
                     .save_leader = std::bind_front(&Agent::SaveLeader, this)});
  absl::Status status = Keep(OpenConnectionReader(options_.ruleset, *loop_), connections_);
  if (!status.ok()) return status;
  // The metrics server starts first, because svcmapd exits if the bind fails and
  // --bind-address-hard-fail is set.
  status = ServeMetrics();
  if (!status.ok()) return status;
  // There is no matching grpc_shutdown(), so gRPC's threads run until the process exits. Otherwise,
  // the last grpc::Server would wait for a thread that polls for 10 s after a large response.
  grpc_init();
  // The first plan reads the tables, even if it writes nothing.
  heap_trim_.AfterSync(HeapTrim::kManyElements);
  loop_->Start(received);
  changes_.GoTo(&*loop_);
  status = Keep(Server::Start(options_.listeners, options_.push_limits, *service_), server_);
  if (status.ok() && !options_.manifests.empty()) {
    status = Annotate(Keep(ManifestsSource::Start(options_.manifests, *intake_), manifests_),
                      "--manifests");
  }
  if (status.ok() && options_.config) status = Keep(ConfigWatch::Start(*options_.config), config_);
  if (!status.ok()) return status;
  if (options_.remove_kube_proxy) {
    remover_.emplace(std::bind_front(&proxy::Loop::status, &*loop_), AbsenceOfKubeProxy());
  }
  spdlog::info("svcmapd started version={} node={}", SVCMAP_VERSION, LogValue(options_.node_name));
  return absl::OkStatus();
}

absl::Status Agent::ServeMetrics() {
  if (!options_.metrics_bind_address) return absl::OkStatus();
  PageServerOptions server;
  server.bind_address = *options_.metrics_bind_address;
  server.bind_hard_fail = options_.bind_address_hard_fail;
  if (options_.config) {
    server.pages["/configz"] = [this] { return JsonPage(ConfigzText(options_.config->config)); };
  }
  const proxy::StateLimits& limits = options_.state_limits;
  return Keep(StartMetricsServer(std::move(server), std::bind_front(&Agent::Facts, this),
                                 {SVCMAP_VERSION, tables_, limits.objects, limits.bytes,
                                  limits.elements, std::chrono::system_clock::now()},
                                 observations_),
              metrics_);
}

absl::Status Agent::Wait(const sigset_t& signals) {
  constexpr timespec kSecond = {.tv_sec = 1, .tv_nsec = 0};
  NotifyReady(kReadyStatus);
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &kSecond);
    if (signal < 0) {
      // None of these calls waits for the disk, because signals are not handled in the meantime.
      clock_.Check();
      if (heap_trim_.TakeDue()) malloc_trim(0);
      intake_->log_limit().Report();
    } else if (signal == SIGHUP) {
      spdlog::info("full comparison with the kernel started signal=SIGHUP");
      NotifyReloading("Comparing the tables in the kernel with the desired state");
      loop_->Repair({.lost = true, .text = "full comparison requested", .process = "SIGHUP"});
      NotifyReady(kReadyStatus);
    } else if (config_ != nullptr && config_->changed()) {
      NotifyStopping("Exiting because the configuration file has changed");
      return absl::AbortedError(
          "configuration file changed: svcmapd must be restarted to use the new file; rules stay "
          "in effect");
    } else {
      spdlog::info("exiting, rules stay in effect signal=SIG{}", sigabbrev_np(signal));
      NotifyStopping("Exiting, rules stay in effect");
      return absl::OkStatus();
    }
  }
}

void Agent::Stop() {
  StartExitGuard();
  if (loop_) loop_->Stop();  // Answers pending batches, so that the gRPC server can close streams.
  changes_.GoTo(nullptr);    // The kernel's monitor outlives the loop.
  watches_.End();
  if (disk_ != nullptr) disk_->Stop();
  cleaner_.Stop();  // Can wait for the end of a dump.
}

void Agent::OnSync(const proxy::SyncResult& result, const proxy::LoopStatus& status) {
  observations_.Synced(result);
  LogSync(result, status);
  watches_.PublishSync(result, status.revision);
  heap_trim_.AfterSync(result.elements);
  heap_trim_.AfterChange(status.object_bytes);
  if (result.outcome == proxy::SyncResult::Outcome::kFailed) return;
  cleaner_.Update(result.udp, result.endpoints);
  if (result.recreated) cleaner_.TablesRepaired();
  if (result.complete) cleaner_.StateIsComplete();
  if (result.health_check_addresses) health_->SetListenAddresses(*result.health_check_addresses);
  health_->Update(result.health_checks);
  if (!result.localhost_node_ports.empty()) forwarder_->Update(result.localhost_node_ports);
}

void Agent::OnRepair(const proxy::RepairResult& result) {
  repairs_.Add(result);
  watches_.PublishRepair(result);
  if (result.outcome == proxy::RepairResult::Outcome::kRepaired) cleaner_.TablesRepaired();
}

void Agent::OnCleanup(const proxy::Cleanup& cleanup) {
  observations_.Cleaned(cleanup);
  LogCleanup(cleanup);
}

void Agent::OnAddresses(NodeAddresses node) {
  spdlog::debug("interface addresses or gateways changed addresses={} gateways={}",
                node.interfaces.size(), node.gateways.size());
  loop_->SetInterfaceAddresses(std::move(node));
}

proxy::StaleConnections Agent::FindStale(std::span<const nft::Flow> flows) {
  proxy::StaleConnections stale;
  loop_->Call([&](proxy::Reconciler& reconciler) {
    stale = FindStaleConnections(flows, reconciler.store(), reconciler.node().facts());
  });
  return stale;
}

bool Agent::MakesProgress() {
  const uint64_t before = std::exchange(turns_, loop_->Turn());
  return turns_ != before;
}

proxy::Health Agent::Health(const proxy::LoopStatus& status, bool watching) const {
  const auto now = std::chrono::steady_clock::now();
  const bool verified =
      status.verified || (status.last_verified && now - *status.last_verified < kUnverifiedFor);
  return proxy::MakeHealth(
      {.oldest_unsynced = status.oldest_unsynced,
       .last_synced = status.last_sync,
       .state_complete = status.complete,
       .verified = verified,
       .watching = watching,
       .node_eligible = status.node_eligible,
       .node_known = status.node_known,
       .node_name = options_.node_name},
      now, options_.config ? options_.config->config.nftables.sync_period : proxy::kSyncPeriod);
}

MetricsFacts Agent::Facts() {
  MetricsFacts facts;
  facts.loop = loop_->status();
  facts.now = std::chrono::steady_clock::now();  // Read after the status, so no age is negative.
  facts.cleaner = cleaner_.status();
  facts.watching = kernel_->WatcherAlive();
  facts.health = Health(facts.loop, facts.watching);
  if (disk_ != nullptr) facts.saved = disk_->status();
  if (options_.manifests.empty()) {
    facts.controller.emplace();
    if (const auto controller = service_->controller()) facts.controller->since = controller->since;
  }
  facts.refused_objects = CountRejected(intake_->Findings());
  facts.refused_calls = service_->rejected_calls().count();
  const Rejections& rejections = service_->rejections();
  facts.failed_handshakes = rejections.count(Rejection::kHandshakeFailed);
  facts.connections_open = rejections.connections();
  for (int i = 0; i < kRejections; ++i) {
    const auto reason = static_cast<Rejection>(i);
    facts.rejected_connections.emplace_back(NameOf(reason), rejections.count(reason));
  }
  const TlsFiles& tls = options_.listeners.tls;
  facts.certificates = ReadExpiries({{"tls-cert", tls.certificate}, {"tls-client-ca", tls.ca}});
  if (connections_ != nullptr) facts.connections = connections_->Read();
  if (forwarder_) facts.localhost = forwarder_->status();
  facts.process = ReadProcessFigures();
  return facts;
}

absl::StatusOr<uint32_t> Agent::KernelGeneration() {
  const std::lock_guard lock(generation_mutex_);
  return generation_->Generation();
}

void Agent::SaveLeader(const proxy::Leader& leader) {
  if (disk_ == nullptr) return;
  const absl::Status saved = disk_->SaveLeader(leader);
  if (saved.ok()) return;
  spdlog::warn("epoch not saved, the epoch will be lost when svcmapd restarts epoch={} error={}",
               leader.epoch, LogValue(saved));
}

}  // namespace svcmap::api
