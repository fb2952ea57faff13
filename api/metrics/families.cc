#include "api/metrics/families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace svcmap::api {
namespace {

constexpr char kFamily[] = "ip_family";

}  // namespace

Families::Families(const Catalogue& catalogue)
    : catalogue_(catalogue), families_(catalogue.size()) {
  for (size_t i = 0; i < catalogue.size(); ++i) {
    families_[i].name = catalogue[i].name;
    families_[i].help = catalogue[i].help;
    families_[i].type = catalogue[i].type;
  }
}

size_t Families::IndexOf(std::string_view name) const {
  const auto found = std::ranges::find(catalogue_, name, &Metric::name);
  assert(found != catalogue_.end());
  return static_cast<size_t>(found - catalogue_.begin());
}

void Families::Add(std::string_view name, double value, const std::vector<std::string>& labels) {
  prometheus::ClientMetric metric;
  // The serializer uses only the value that matches the type of the family.
  metric.counter.value = metric.gauge.value = value;
  Add(name, std::move(metric), labels);
}

void Families::Add(std::string_view name, prometheus::ClientMetric metric,
                   const std::vector<std::string>& labels) {
  const size_t index = IndexOf(name);
  const std::vector<std::string_view>& names = catalogue_[index].labels;
  assert(names.size() == labels.size());
  for (size_t i = 0; i < names.size(); ++i) {
    metric.label.push_back({std::string(names[i]), labels[i]});
  }
  families_[index].metric.push_back(std::move(metric));
}

std::vector<prometheus::MetricFamily> Families::Take() && {
  std::erase_if(families_, [](const auto& family) { return family.metric.empty(); });
  return std::move(families_);
}

std::string ToText(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

const Catalogue& AllMetrics() {
  static const auto* all = new Catalogue{
      // Metrics of kube-proxy (S-269..S-285).
      Histogram("kubeproxy_sync_proxy_rules_duration_seconds",
                "Duration of syncs in seconds, including failed syncs. A sync programs both IP "
                "families and is counted for each family",
                {kFamily}),
      Histogram("kubeproxy_sync_full_proxy_rules_duration_seconds",
                "Duration in seconds of full syncs, which rewrite the tables completely",
                {kFamily}),
      Histogram("kubeproxy_sync_partial_proxy_rules_duration_seconds",
                "Duration in seconds of partial syncs, which write only changes", {kFamily}),
      Gauge("kubeproxy_sync_proxy_rules_last_timestamp_seconds",
            "Unix time of the last successful sync, or 0 if no sync has succeeded", {kFamily}),
      Gauge("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
            "Unix time when a change was last received, initially the start time", {kFamily}),
      Gauge("kubeproxy_sync_proxy_rules_endpoint_changes_pending",
            "Number of EndpointSlice changes that are not programmed yet"),
      Counter("kubeproxy_sync_proxy_rules_endpoint_changes_total",
              "Total number of EndpointSlice changes received, including changes without effect"),
      Gauge("kubeproxy_sync_proxy_rules_service_changes_pending",
            "Number of Service changes that are not programmed yet"),
      Counter(
          "kubeproxy_sync_proxy_rules_service_changes_total",
          "Total number of Service changes received. A change is counted once, not per IP family"),
      Histogram("kubeproxy_network_programming_duration_seconds",
                "Time in seconds from an endpoint change, as reported by the controller, until the "
                "change is programmed",
                {kFamily}),
      Gauge("kubeproxy_sync_proxy_rules_no_local_endpoints_total",
            "Number of Service ports with traffic policy Local that have endpoints, but none on "
            "this node",
            {kFamily, "traffic_policy"}),
      Counter("kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
              "Total number of failed nftables transactions", {kFamily}),
      Counter("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
              "Always 0, because svcmapd has no stale chains to clean up", {kFamily}),
      Histogram("kubeproxy_conntrack_reconciler_sync_duration_seconds",
                "Duration in seconds of cleanups that cover UDP flows or only handshakes. A "
                "cleanup handles both IP families and is counted for each family",
                {kFamily}),
      Counter("kubeproxy_conntrack_reconciler_deleted_entries_total",
              "Total number of stale UDP flows deleted", {kFamily}),
      Counter("kubeproxy_proxy_healthz_total", "Total number of /healthz responses by status code",
              {"code"}),
      Counter("kubeproxy_proxy_livez_total", "Total number of /livez responses by status code",
              {"code"}),
      Gauge("kubeproxy_nftables_localhost_nodeport_listeners",
            "Number of sockets that listen on nodePorts of 127.0.0.1 or ::1. Absent if "
            "localhost nodePorts are disabled",
            {kFamily}),
      Counter("kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
              "Total number of nodePorts on which svcmapd could not listen on 127.0.0.1 or ::1. "
              "Retries that fail for the same reason do not count. Absent if "
              "localhost nodePorts are disabled",
              {kFamily}),
      // Metrics of writes to the kernel.
      Gauge("svcmap_build_info", "Version of svcmapd. The value is always 1", {"version"}),
      Gauge("svcmap_state", "State of svcmapd: 1 for the current state, 0 for the other states",
            {"state"}),
      Gauge("svcmap_phase", "Phase of svcmapd: 1 for the current phase, 0 for the other phases",
            {"phase"}),
      Gauge("svcmap_state_complete",
            "1 if svcmapd has received or restored a complete state and has programmed this state"),
      Gauge("svcmap_revision", "Revision of the programmed state. Increases with each commit"),
      Counter("svcmap_commits_total", "Total number of nftables transactions committed"),
      Histogram("svcmap_commit_duration_seconds",
                "Time in seconds that the kernel needed to commit a transaction"),
      Summary("svcmap_stage_duration_seconds",
              "Time in seconds that each stage needed between the receipt of a message and its "
              "acknowledgement",
              {"stage"}),
      Counter("svcmap_recreations_total",
              "Total number of commits that rewrote the tables completely"),
      Counter("svcmap_elements_written_total",
              "Total number of map and set elements added or deleted by commits and repairs"),
      Gauge("svcmap_map_elements", "Number of elements in a map or set, as confirmed by the kernel",
            {"map", kFamily}),
      Gauge("svcmap_map_elements_limit", "Maximum number of elements in a map or set of fixed size",
            {"map", kFamily}),
      Gauge("svcmap_service_ports", "Number of programmed Service ports"),
      // Metrics of the state received from the controller.
      Gauge("svcmap_objects", "Number of stored objects", {"kind"}),
      Gauge("svcmap_objects_limit",
            "Maximum number of stored objects of all kinds (--max-objects)"),
      Gauge("svcmap_object_bytes", "Size of all stored objects in bytes"),
      Gauge("svcmap_object_bytes_limit",
            "Maximum size of all stored objects in bytes (--max-bytes)"),
      Gauge("svcmap_object_elements",
            "Estimated number of map elements of all Services, which --max-elements limits"),
      Gauge("svcmap_object_elements_limit",
            "Maximum number of map elements of all Services (--max-elements)"),
      Gauge("svcmap_pending_services",
            "Number of Services whose latest change is not programmed yet"),
      Gauge("svcmap_pending_age_seconds",
            "Time in seconds since the oldest change that is not programmed yet was received, or 0 "
            "if no change is pending"),
      Gauge("svcmap_refused_objects",
            "Number of objects whose latest version was rejected. The last accepted version of "
            "each object, if any, stays in effect"),
      Gauge("svcmap_kernel_refused_services",
            "Number of Services whose latest version was rejected by the kernel"),
      Gauge("svcmap_snapshot_held",
            "1 if the removals of a snapshot are held because they would remove too many "
            "objects"),
      Gauge("svcmap_node_eligible", "1 if load balancers may send traffic to this node"),
      Gauge("svcmap_controller_connected",
            "1 if a controller is connected. Absent with --manifests"),
      Gauge("svcmap_controller_since_timestamp_seconds",
            "Unix time when the controller connected. Absent if no controller is connected"),
      Counter("svcmap_refused_calls_total",
              "Total number of connections and calls denied because the client is not authorized"),
      Counter("svcmap_failed_handshakes_total", "Total number of failed TLS handshakes"),
      Gauge("svcmap_certificate_expiry_timestamp_seconds",
            "Unix time when the first certificate of a TLS file expires. Absent without TLS",
            {"file"}),
      Gauge("svcmap_api_connections",
            "Number of open API connections, including incomplete TLS handshakes. A closed "
            "connection counts until its calls are freed"),
      Counter("svcmap_rejected_connections_total",
              "Total number of API connections rejected or closed because of a limit", {"reason"}),
      // Metrics of the verification and repair of the tables in the kernel.
      Gauge("svcmap_verified",
            "0 if svcmapd has not confirmed that the tables match its state: after changes by "
            "another process, while commits fail, and while svcmapd waits for a complete state and "
            "keeps the rules of a previous run"),
      Gauge("svcmap_watching",
            "0 if svcmapd receives no notifications when another process changes the tables"),
      Counter("svcmap_repairs_total", "Total number of repairs of the tables"),
      Counter("svcmap_repaired_elements_total",
              "Total number of elements repaired because they were missing, wrong or foreign"),
      Counter("svcmap_repaired_chains_total",
              "Total number of chains and objects repaired because they were missing, wrong or "
              "foreign"),
      Counter("svcmap_audits_total",
              "Total number of complete comparisons of the tables in the kernel with the desired "
              "state"),
      Counter("svcmap_conntrack_cleanup_failures_total",
              "Total number of failed cleanups of the connection tracking table. A cleanup lists "
              "the table and deletes stale entries. svcmapd retries failed cleanups"),
      Counter(
          "svcmap_conntrack_deleted_tcp_flows_total",
          "Total number of TCP flows to removed endpoints deleted. Always 0 if no Service resets "
          "stale TCP connections",
          {kFamily}),
      Counter("svcmap_conntrack_deleted_handshakes_total",
              "Total number of unreplied TCP and SCTP entries deleted because their endpoint is "
              "gone, or because they are not translated",
              {kFamily}),
      // Metrics of the saved state.
      Gauge("svcmap_saved_state_bytes",
            "Size of the saved state file in bytes. Absent without --state-dir"),
      Gauge("svcmap_saved_state_failing",
            "1 if the state cannot be saved. Absent without --state-dir"),
      Counter("svcmap_saved_state_failures_total",
              "Total number of failed attempts to save the state. Absent without --state-dir"),
      Gauge("svcmap_saved_state_synced_timestamp_seconds",
            "Unix time of the last sync of the saved state file to disk, or 0 before the first "
            "sync. Absent without --state-dir"),
      // Metrics of the connection counters (--service-counters).
      Counter("svcmap_service_connections_total",
              "Total number of new connections to a Service port by destination. Absent without "
              "--service-counters",
              {"namespace", "name", "port", "protocol", "destination"}),
      // Metrics of connections to nodePorts on loopback addresses.
      Gauge("svcmap_localhost_nodeport_connections",
            "Number of connections to nodePorts on 127.0.0.1 and ::1. Absent if "
            "localhost nodePorts are disabled"),
      Counter("svcmap_localhost_nodeport_rejected_connections_total",
              "Total number of connections to nodePorts on 127.0.0.1 and ::1 that were reset "
              "because too many connections were open. Absent if localhost nodePorts are disabled"),
      // Process metrics with the names of Prometheus' Go client.
      Counter("process_cpu_seconds_total", "Total user and system CPU time in seconds"),
      Gauge("process_resident_memory_bytes", "Resident memory size in bytes"),
      Gauge("process_virtual_memory_bytes", "Virtual memory size in bytes"),
      Gauge("process_virtual_memory_max_bytes", "Maximum virtual memory size in bytes"),
      Gauge("process_open_fds", "Number of open file descriptors"),
      Gauge("process_max_fds", "Maximum number of open file descriptors"),
      Gauge("process_start_time_seconds", "Unix time when the process started"),
  };
  return *all;
}

const Catalogue& SliMetrics() {
  static const auto* all = new Catalogue{
      Gauge("kubernetes_healthcheck",
            "1 if the health check succeeds, otherwise 0. The label type is healthz or livez",
            {"name", "type"}),
      Counter("kubernetes_healthchecks_total", "Total number of health check responses by result",
              {"name", "status", "type"}),
  };
  return *all;
}

}  // namespace svcmap::api
