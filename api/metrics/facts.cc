#include "api/metrics/facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "api/health/answers.h"
#include "api/metrics/families.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {
namespace {

using Outcome = proxy::SyncResult::Outcome;

std::string Name(Family family) { return std::string(FamilyName(family)); }

double Flag(bool value) { return value ? 1 : 0; }

void AddKubeProxy(const MetricsFacts& facts, const Observations& observations, Families& page) {
  const proxy::LoopStatus& loop = facts.loop;
  for (const Family family : kFamilies) {
    const size_t index = Index(family);
    const std::vector<std::string> labels = {Name(family)};
    page.Add("kubeproxy_sync_proxy_rules_duration_seconds", observations.syncs.Collect(), labels);
    page.Add("kubeproxy_sync_full_proxy_rules_duration_seconds", observations.full_syncs.Collect(),
             labels);
    page.Add("kubeproxy_sync_partial_proxy_rules_duration_seconds",
             observations.partial_syncs.Collect(), labels);
    page.Add("kubeproxy_sync_proxy_rules_last_timestamp_seconds", observations.last_sync.Value(),
             labels);
    page.Add("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", UnixTime(loop.last_queued),
             labels);
    page.Add("kubeproxy_network_programming_duration_seconds",
             observations.programming[index].Collect(), labels);
    const char* no_local = "kubeproxy_sync_proxy_rules_no_local_endpoints_total";
    page.Add(no_local, loop.no_local_endpoints.internal[index], {Name(family), "internal"});
    page.Add(no_local, loop.no_local_endpoints.external[index], {Name(family), "external"});
    page.Add("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", loop.failures, labels);
    page.Add("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total", 0, labels);
    page.Add("kubeproxy_conntrack_reconciler_sync_duration_seconds",
             observations.cleanups.Collect(), labels);
    page.Add("kubeproxy_conntrack_reconciler_deleted_entries_total", facts.cleaner.deleted[index],
             labels);
  }
  page.Add("kubeproxy_sync_proxy_rules_endpoint_changes_pending",
           loop.pending_changes.slices + loop.waiting_changes.slices);
  page.Add("kubeproxy_sync_proxy_rules_endpoint_changes_total", loop.changes.slices);
  page.Add("kubeproxy_sync_proxy_rules_service_changes_pending",
           loop.pending_changes.services + loop.waiting_changes.services);
  page.Add("kubeproxy_sync_proxy_rules_service_changes_total", loop.changes.services);
  for (const auto& [name, answers] :
       {std::pair{"kubeproxy_proxy_healthz_total", &observations.healthz},
        std::pair{"kubeproxy_proxy_livez_total", &observations.livez}}) {
    page.Add(name, answers->ok, {"200"});
    page.Add(name, answers->unavailable, {"503"});
  }
}

void AddMaps(const MetricsFacts& facts, const MetricsConstants& constants, Families& page) {
  for (const Family family : kFamilies) {
    const auto name = [&](size_t set) { return constants.tables[Index(family)].sets[set].name; };
    for (size_t set = 0; set < proxy::RowSetCount(constants.tables[Index(family)]); ++set) {
      // Skips the affinity set, which is filled by rules in the kernel, and the marker set, which
      // always has one element.
      if (set == proxy::kMarker || set == proxy::kAffinity) continue;
      page.Add("svcmap_map_elements", static_cast<double>(facts.loop.elements[Index(family)][set]),
               {name(set), Name(family)});
    }
    page.Add("svcmap_map_elements_limit", proxy::kMaxSourceRows,
             {name(proxy::kFirewallSources), Name(family)});
  }
}

// Adds a summary for each stage, which has a sum and a count but no quantiles.
void AddStages(const proxy::StageTimes& stages, Families& page) {
  for (size_t i = 0; i < proxy::kStages; ++i) {
    const auto stage = static_cast<proxy::Stage>(i);
    prometheus::ClientMetric metric;
    metric.summary.sample_count = stages.of(stage).count;
    metric.summary.sample_sum = std::chrono::duration<double>(stages.of(stage).sum).count();
    page.Add("svcmap_stage_duration_seconds", std::move(metric),
             {std::string(proxy::StageName(stage))});
  }
}

void AddKernel(const MetricsFacts& facts, const MetricsConstants& constants,
               const Observations& observations, Families& page) {
  using proxy::Phase;
  const proxy::LoopStatus& loop = facts.loop;
  page.Add("svcmap_build_info", 1, {constants.version});
  const bool waiting = loop.phase == Phase::kHolding || loop.phase == Phase::kWaiting;
  const bool retrying = loop.phase == Phase::kRetrying;
  page.Add("svcmap_state", Flag(waiting), {"waiting_for_state"});
  page.Add("svcmap_state", Flag(!waiting && !retrying), {"serving"});
  page.Add("svcmap_state", Flag(retrying), {"retrying"});
  for (const auto& [phase, name] :
       {std::pair{Phase::kHolding, "holding"}, std::pair{Phase::kWaiting, "waiting"},
        std::pair{Phase::kLoading, "loading"}, std::pair{Phase::kServing, "serving"},
        std::pair{Phase::kRewriting, "rewriting"}, std::pair{Phase::kRepairing, "repairing"},
        std::pair{Phase::kRetrying, "retrying"}}) {
    page.Add("svcmap_phase", Flag(loop.phase == phase), {name});
  }
  page.Add("svcmap_state_complete", Flag(loop.complete));
  page.Add("svcmap_revision", loop.revision);
  page.Add("svcmap_commits_total", loop.commits);
  page.Add("svcmap_commit_duration_seconds", observations.commits.Collect());
  AddStages(loop.stages, page);
  page.Add("svcmap_recreations_total", loop.recreations);
  page.Add("svcmap_elements_written_total", loop.elements_written);
  AddMaps(facts, constants, page);
  page.Add("svcmap_service_ports", loop.service_ports);
}

void AddState(const MetricsFacts& facts, const MetricsConstants& constants, Families& page) {
  const proxy::LoopStatus& loop = facts.loop;
  for (const auto& [kind, count] :
       {std::pair{"Service", loop.services}, std::pair{"EndpointSlice", loop.slices},
        std::pair{"Node", loop.nodes}, std::pair{"ServiceCIDR", loop.service_cidrs}}) {
    page.Add("svcmap_objects", count, {kind});
  }
  page.Add("svcmap_objects_limit", constants.max_objects);
  page.Add("svcmap_object_bytes", loop.object_bytes);
  page.Add("svcmap_object_bytes_limit", constants.max_bytes);
  page.Add("svcmap_object_elements", loop.object_elements);
  page.Add("svcmap_object_elements_limit", constants.max_elements);
  page.Add("svcmap_pending_services", loop.pending_services);
  page.Add("svcmap_pending_age_seconds",
           loop.oldest_unsynced
               ? std::chrono::duration<double>(facts.now - *loop.oldest_unsynced).count()
               : 0);
  page.Add("svcmap_refused_objects", facts.refused_objects);
  page.Add("svcmap_kernel_refused_services", loop.rejected_services);
  for (const CertificateExpiry& certificate : facts.certificates) {
    page.Add("svcmap_certificate_expiry_timestamp_seconds", UnixTime(certificate.first),
             {certificate.name});
  }
  page.Add("svcmap_snapshot_held", Flag(loop.held_snapshot.has_value()));
  page.Add("svcmap_node_eligible", Flag(loop.node_eligible));
  if (facts.controller) {
    page.Add("svcmap_controller_connected", Flag(facts.controller->since.has_value()));
    if (facts.controller->since) {
      page.Add("svcmap_controller_since_timestamp_seconds", UnixTime(*facts.controller->since));
    }
  }
  page.Add("svcmap_refused_calls_total", facts.refused_calls);
  page.Add("svcmap_failed_handshakes_total", facts.failed_handshakes);
  page.Add("svcmap_api_connections", facts.connections_open);
  for (const auto& [reason, count] : facts.rejected_connections) {
    page.Add("svcmap_rejected_connections_total", count, {reason});
  }
}

void AddTruth(const MetricsFacts& facts, Families& page) {
  const proxy::LoopStatus& loop = facts.loop;
  page.Add("svcmap_verified", Flag(loop.verified));
  page.Add("svcmap_watching", Flag(facts.watching));
  page.Add("svcmap_repairs_total", loop.repairs);
  page.Add("svcmap_repaired_elements_total", loop.repaired_elements);
  page.Add("svcmap_repaired_chains_total", loop.repaired_chains);
  page.Add("svcmap_audits_total", loop.audits);
  page.Add("svcmap_conntrack_cleanup_failures_total", facts.cleaner.failures);
  for (const Family family : kFamilies) {
    page.Add("svcmap_conntrack_deleted_tcp_flows_total", facts.cleaner.deleted_tcp[Index(family)],
             {Name(family)});
    page.Add("svcmap_conntrack_deleted_handshakes_total",
             facts.cleaner.deleted_handshakes[Index(family)], {Name(family)});
  }
}

void AddSavedState(const proxy::ObjectStoreStatus& saved, Families& page) {
  page.Add("svcmap_saved_state_bytes", saved.bytes);
  page.Add("svcmap_saved_state_failing", Flag(!saved.error.empty()));
  page.Add("svcmap_saved_state_failures_total", saved.failures);
  page.Add("svcmap_saved_state_synced_timestamp_seconds", UnixTime(saved.synced));
}

void AddConnections(const std::vector<proxy::ServiceConnections>& connections, Families& page) {
  for (const proxy::ServiceConnections& at : connections) {
    const size_t slash = at.service.find('/');
    const bool ranges = at.port == 0;
    page.Add(
        "svcmap_service_connections_total", static_cast<double>(at.connections),
        {at.service.substr(0, slash), at.service.substr(slash + 1),
         ranges ? "ranges" : std::to_string(at.port), std::string(proxy::ProtocolName(at.protocol)),
         ranges ? at.address.ToString() : at.address.WithPort(at.reached_at)});
  }
}

void AddLocalhost(const LocalhostForwarderStatus& localhost, Families& page) {
  for (const Family family : kFamilies) {
    const std::string name(FamilyName(family));
    page.Add("kubeproxy_nftables_localhost_nodeport_listeners", localhost.listeners[Index(family)],
             {name});
    page.Add("kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
             localhost.listener_failures[Index(family)], {name});
  }
  page.Add("svcmap_localhost_nodeport_connections", localhost.connections);
  page.Add("svcmap_localhost_nodeport_rejected_connections_total", localhost.rejected_connections);
}

void AddProcess(const ProcessFigures& process, Families& page) {
  page.Add("process_cpu_seconds_total", process.cpu_seconds);
  page.Add("process_resident_memory_bytes", process.resident_bytes);
  page.Add("process_virtual_memory_bytes", process.virtual_bytes);
  page.Add("process_virtual_memory_max_bytes", process.max_virtual_bytes);
  page.Add("process_open_fds", process.open_fds);
  page.Add("process_max_fds", process.max_fds);
  page.Add("process_start_time_seconds", process.start_time);
}

using Buckets = prometheus::Histogram::BucketBoundaries;

// kube-proxy's 15 latency buckets. The limits double from bucket to bucket, from 1 ms to 16.384 s.
Buckets Latency() {
  Buckets buckets;
  for (int k = 0; k < 15; ++k) buckets.push_back(0.001 * (1 << k));
  return buckets;
}

// kube-proxy's buckets for the network programming latency in seconds (S-278).
Buckets Programming() {
  Buckets buckets = {0.25, 0.5};
  for (int seconds = 1; seconds < 60; ++seconds) buckets.push_back(seconds);
  for (int seconds = 60; seconds < 120; seconds += 5) buckets.push_back(seconds);
  for (int seconds = 120; seconds <= 300; seconds += 30) buckets.push_back(seconds);
  return buckets;
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

uint64_t SoftLimit(int resource) {
  rlimit limit = {};
  getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return limit.rlim_cur;
}

// Counts the open file descriptors, except for the descriptor that reads the directory.
uint64_t OpenDescriptors() {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    ++count;
  }
  return count > 0 ? count - 1 : 0;
}

// Close to the start of the process, because static variables are initialized before main().
const std::chrono::system_clock::time_point kProcessStart = std::chrono::system_clock::now();

}  // namespace

std::string MetricsText(const MetricsFacts& facts, const MetricsConstants& constants,
                        const Observations& observations) {
  Families page(AllMetrics());
  AddKubeProxy(facts, observations, page);
  AddKernel(facts, constants, observations, page);
  AddState(facts, constants, page);
  AddTruth(facts, page);
  if (facts.saved) AddSavedState(*facts.saved, page);
  if (facts.connections != nullptr) AddConnections(*facts.connections, page);
  if (facts.localhost) AddLocalhost(*facts.localhost, page);
  AddProcess(facts.process, page);
  return ToText(std::move(page).Take());
}

std::string SliText(const MetricsFacts& facts, const Observations& observations) {
  const SystemTime now;  // Any time works, because only the status codes of the answers are used.
  Families page(SliMetrics());
  const std::string name = "proxy";
  page.Add("kubernetes_healthcheck", Flag(HealthzAnswer(facts.health, now).code == 200),
           {name, "healthz"});
  page.Add("kubernetes_healthcheck", Flag(LivezAnswer(facts.health, now).code == 200),
           {name, "livez"});
  for (const auto& [type, answers] :
       {std::pair{"healthz", &observations.healthz}, std::pair{"livez", &observations.livez}}) {
    page.Add("kubernetes_healthchecks_total", answers->ok, {name, "success", type});
    page.Add("kubernetes_healthchecks_total", answers->unavailable, {name, "error", type});
  }
  return ToText(std::move(page).Take());
}

Observations::Observations()
    : syncs(Latency()),
      full_syncs(Latency()),
      partial_syncs(Latency()),
      commits(Latency()),
      cleanups(Latency()),
      programming{prometheus::Histogram(Programming()), prometheus::Histogram(Programming())} {}

void Observations::Synced(const proxy::SyncResult& result) {
  for (const auto& [family, took] : result.programmed) {
    programming[Index(family)].Observe(Seconds(took));
  }
  if (result.whole.count() == 0) return;
  const double took = Seconds(result.whole);
  syncs.Observe(took);
  (result.recreated ? full_syncs : partial_syncs).Observe(took);
  if (result.outcome == proxy::SyncResult::Outcome::kFailed) return;
  last_sync.Set(UnixTime(std::chrono::system_clock::now()));
  if (result.outcome == proxy::SyncResult::Outcome::kCommitted) {
    commits.Observe(Seconds(result.duration));
  }
}

// Does not record a cleanup that could not read the connection table (S-282).
void Observations::Cleaned(const proxy::Cleanup& cleanup) {
  const bool only_tcp = cleanup.services == 0 && cleanup.tcp_services > 0;
  if (cleanup.error.ok() && !only_tcp) cleanups.Observe(Seconds(cleanup.duration));
}

void Observations::Answered(const std::string& path, int code) {
  if (path != "/healthz" && path != "/livez") return;
  Answers& answers = path == "/healthz" ? healthz : livez;
  ++(code == 200 ? answers.ok : answers.unavailable);
}

ProcessFigures ReadProcessFigures() {
  ProcessFigures figures;
  uint64_t virtual_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages;
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  figures.virtual_bytes = virtual_pages * page_bytes;
  figures.resident_bytes = resident_pages * page_bytes;
  figures.start_time = UnixTime(kProcessStart);
  figures.cpu_seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  figures.max_virtual_bytes = SoftLimit(RLIMIT_AS);
  figures.open_fds = OpenDescriptors();
  figures.max_fds = SoftLimit(RLIMIT_NOFILE);
  return figures;
}

}  // namespace svcmap::api
