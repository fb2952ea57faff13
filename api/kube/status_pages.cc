#include "api/kube/status_pages.h"

#include <algorithm>
#include <utility>

#include "api/metrics/families.h"
#include "api/metrics/server.h"

namespace svcmap::kube {
namespace {

constexpr auto kCounterMetric = prometheus::MetricType::Counter;
constexpr auto kGaugeMetric = prometheus::MetricType::Gauge;
constexpr char kResourceLabel[] = "resource";

void AddWatch(const std::string& resource, const ListWatchFacts& watch, const BridgeFacts& facts,
              api::Families& page) {
  const std::vector<std::string> labels = {resource};
  page.Add("svcmap_kube_listed", watch.listed ? 1 : 0, labels);
  page.Add("svcmap_kube_lists_total", static_cast<double>(watch.lists), labels);
  page.Add("svcmap_kube_watches_total", static_cast<double>(watch.watches), labels);
  page.Add("svcmap_kube_events_total", static_cast<double>(watch.events), labels);
  page.Add("svcmap_kube_failures_total", static_cast<double>(watch.failures), labels);
  page.Add("svcmap_kube_expired_total", static_cast<double>(watch.expired), labels);
  const auto since = std::max(watch.last_contact, facts.started);
  page.Add("svcmap_kube_contact_age_seconds",
           std::chrono::duration<double>(facts.now - since).count(), labels);
}

}  // namespace

const api::Catalogue& KubeMetrics() {
  static const auto* all = new api::Catalogue{
      {"svcmap_kube_build_info",
       kGaugeMetric,
       {"version"},
       "Version of svcmap-kube. The value is always 1"},
      {"svcmap_kube_listed",
       kGaugeMetric,
       {kResourceLabel},
       "Whether the resource has been listed completely (1) or not (0). The first push requires "
       "all resources"},
      {"svcmap_kube_lists_total",
       kCounterMetric,
       {kResourceLabel},
       "Total number of lists that were received completely"},
      {"svcmap_kube_watches_total",
       kCounterMetric,
       {kResourceLabel},
       "Total number of watches that were started"},
      {"svcmap_kube_events_total",
       kCounterMetric,
       {kResourceLabel},
       "Total number of watch events"},
      {"svcmap_kube_failures_total",
       kCounterMetric,
       {kResourceLabel},
       "Total number of failed requests to the API server"},
      {"svcmap_kube_expired_total",
       kCounterMetric,
       {kResourceLabel},
       "Total number of expired watches (410 Gone) that required a new list"},
      {"svcmap_kube_contact_age_seconds",
       kGaugeMetric,
       {kResourceLabel},
       "Time in seconds since the last data was received from the API server, or since the start "
       "if no data was received"},
      {"svcmap_kube_objects", kGaugeMetric, {}, "Number of cached objects of all resources"},
      {"svcmap_kube_object_bytes",
       kGaugeMetric,
       {},
       "Total size of the serialized cached objects in bytes"},
      {"svcmap_kube_changes_waiting",
       kGaugeMetric,
       {},
       "Number of objects with changes that have not been sent yet"},
      {"svcmap_kube_agent_connected",
       kGaugeMetric,
       {},
       "Whether a stream to svcmapd is open (1) or not (0)"},
      {"svcmap_kube_agent_synced",
       kGaugeMetric,
       {},
       "1 if svcmapd has the complete state except for changes in flight, otherwise 0"},
      {"svcmap_kube_agent_revision", kGaugeMetric, {}, "Revision of svcmapd in the last Ack"},
      {"svcmap_kube_batches_in_flight", kGaugeMetric, {}, "Number of batches without an Ack"},
      {"svcmap_kube_batches_total", kCounterMetric, {}, "Total number of batches sent"},
      {"svcmap_kube_snapshots_total", kCounterMetric, {}, "Total number of snapshots started"},
      {"svcmap_kube_resumed_total",
       kCounterMetric,
       {},
       "Total number of streams that were resumed without a snapshot"},
      {"svcmap_kube_stream_failures_total",
       kCounterMetric,
       {},
       "Total number of closed streams to svcmapd and failed connection attempts"},
      {"svcmap_kube_refused_objects",
       kGaugeMetric,
       {},
       "Number of objects that svcmapd rejected. The previously accepted version of each object, "
       "if any, stays in effect"},
  };
  return *all;
}

std::string KubeMetricsText(const BridgeFacts& facts, const std::string& version) {
  api::Families page(KubeMetrics());
  page.Add("svcmap_kube_build_info", 1, {version});
  for (size_t i = 0; i < kResources.size(); ++i) {
    AddWatch(std::string(ResourceName(kResources[i])), facts.watches[i], facts, page);
  }
  page.Add("svcmap_kube_objects", static_cast<double>(facts.mirror.objects));
  page.Add("svcmap_kube_object_bytes", static_cast<double>(facts.mirror.bytes));
  page.Add("svcmap_kube_changes_waiting", static_cast<double>(facts.mirror.waiting));
  const PushFacts& push = facts.push;
  page.Add("svcmap_kube_agent_connected", push.connected ? 1 : 0);
  page.Add("svcmap_kube_agent_synced", push.synced ? 1 : 0);
  page.Add("svcmap_kube_agent_revision", static_cast<double>(push.revision));
  page.Add("svcmap_kube_batches_in_flight", static_cast<double>(push.in_flight));
  page.Add("svcmap_kube_batches_total", static_cast<double>(push.batches));
  page.Add("svcmap_kube_snapshots_total", static_cast<double>(push.snapshots));
  page.Add("svcmap_kube_resumed_total", static_cast<double>(push.resumed));
  page.Add("svcmap_kube_stream_failures_total", static_cast<double>(push.failures));
  page.Add("svcmap_kube_refused_objects", static_cast<double>(push.rejected));
  return api::ToText(std::move(page).Take());
}

api::Answer KubeHealthzAnswer(const BridgeFacts& facts) {
  std::string missing;
  std::string without;
  for (size_t i = 0; i < kResources.size(); ++i) {
    const ListWatchFacts& watch = facts.watches[i];
    if (watch.listed) continue;
    const std::string name(ResourceName(kResources[i]));
    const std::string why = (watch.last_error.empty() ? "" : ": " + watch.last_error) + "\n";
    if (facts.complete) {
      without += ", " + name + " not available" + why;
    } else {
      missing += name + " not listed yet" + why;
    }
  }
  if (!facts.push.synced) {
    missing += "svcmapd not synced";
    missing += facts.push.last_error.empty() ? "\n" : ": " + facts.push.last_error + "\n";
  }
  api::Answer answer = api::TextPage(missing.empty() ? "ok" + without : missing);
  if (!missing.empty()) answer.code = 503;
  return answer;
}

}  // namespace svcmap::kube
