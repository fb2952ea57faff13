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
      {"svcmap_kube_build_info", kGaugeMetric, {"version"}, "1"},
      {"svcmap_kube_listed",
       kGaugeMetric,
       {kResourceLabel},
       "1 once this resource was listed completely; nothing is pushed before all were"},
      {"svcmap_kube_lists_total", kCounterMetric, {kResourceLabel}, "Lists that were complete"},
      {"svcmap_kube_watches_total", kCounterMetric, {kResourceLabel}, "Watches that began"},
      {"svcmap_kube_events_total", kCounterMetric, {kResourceLabel}, "Events of watches"},
      {"svcmap_kube_failures_total",
       kCounterMetric,
       {kResourceLabel},
       "Requests to the API server that failed"},
      {"svcmap_kube_expired_total",
       kCounterMetric,
       {kResourceLabel},
       "Watches that could not go on (410 Gone), so that the resource was listed again"},
      {"svcmap_kube_contact_age_seconds",
       kGaugeMetric,
       {kResourceLabel},
       "Since the API server last sent something about this resource, or since the start"},
      {"svcmap_kube_objects", kGaugeMetric, {}, "Objects held, of all resources together"},
      {"svcmap_kube_object_bytes", kGaugeMetric, {}, "How large they are, serialized"},
      {"svcmap_kube_changes_waiting", kGaugeMetric, {}, "Objects whose change was not sent yet"},
      {"svcmap_kube_agent_connected", kGaugeMetric, {}, "1 while there is a stream to svcmapd"},
      {"svcmap_kube_agent_synced",
       kGaugeMetric,
       {},
       "1 while svcmapd holds a whole state of ours, changes under way apart"},
      {"svcmap_kube_agent_revision", kGaugeMetric, {}, "svcmapd's revision in the last ack"},
      {"svcmap_kube_batches_in_flight", kGaugeMetric, {}, "Batches without an ack"},
      {"svcmap_kube_batches_total", kCounterMetric, {}, "Batches that were sent"},
      {"svcmap_kube_snapshots_total", kCounterMetric, {}, "Snapshots that were begun"},
      {"svcmap_kube_resumed_total",
       kCounterMetric,
       {},
       "Streams that went on where the one before was, without a snapshot"},
      {"svcmap_kube_stream_failures_total",
       kCounterMetric,
       {},
       "Streams to svcmapd that ended, and tries to open one that failed"},
      {"svcmap_kube_refused_objects",
       kGaugeMetric,
       {},
       "Objects that svcmapd refused: their last good state, or nothing, serves instead"},
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
  page.Add("svcmap_kube_refused_objects", static_cast<double>(push.refused));
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
      without += ", without " + name + why;
    } else {
      missing += name + " are not listed yet" + why;
    }
  }
  if (!facts.push.synced) {
    missing += "svcmapd does not have everything";
    missing += facts.push.last_error.empty() ? "\n" : ": " + facts.push.last_error + "\n";
  }
  api::Answer answer = api::TextPage(missing.empty() ? "ok" + without : missing);
  if (!missing.empty()) answer.code = 503;
  return answer;
}

}  // namespace svcmap::kube
