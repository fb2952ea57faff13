#include "api/kube/status_pages.h"

#include <algorithm>
#include <utility>

#include "api/metrics/families.h"
#include "api/metrics/server.h"

namespace svcmap::kube {
namespace {

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
  using api::Counter;
  using api::Gauge;
  static const auto* all = new api::Catalogue{
      Gauge("svcmap_kube_build_info", "Version of svcmap-kube. The value is always 1", {"version"}),
      Gauge("svcmap_kube_listed",
            "Whether the resource has been listed completely (1) or not (0). The first push "
            "requires all resources",
            {kResourceLabel}),
      Counter("svcmap_kube_lists_total", "Total number of lists that were received completely",
              {kResourceLabel}),
      Counter("svcmap_kube_watches_total", "Total number of watches that were started",
              {kResourceLabel}),
      Counter("svcmap_kube_events_total", "Total number of watch events", {kResourceLabel}),
      Counter("svcmap_kube_failures_total", "Total number of failed requests to the API server",
              {kResourceLabel}),
      Counter("svcmap_kube_expired_total",
              "Total number of expired watches (410 Gone) that required a new list",
              {kResourceLabel}),
      Gauge("svcmap_kube_contact_age_seconds",
            "Time in seconds since the last data was received from the API server, or since the "
            "start if no data was received",
            {kResourceLabel}),
      Gauge("svcmap_kube_objects", "Number of cached objects of all resources"),
      Gauge("svcmap_kube_object_bytes", "Total size of the serialized cached objects in bytes"),
      Gauge("svcmap_kube_changes_waiting",
            "Number of objects with changes that have not been sent yet"),
      Gauge("svcmap_kube_agent_connected", "Whether a stream to svcmapd is open (1) or not (0)"),
      Gauge("svcmap_kube_agent_synced",
            "1 if svcmapd has the complete state except for changes in flight, otherwise 0"),
      Gauge("svcmap_kube_agent_revision", "Revision of svcmapd in the last Ack"),
      Gauge("svcmap_kube_batches_in_flight", "Number of batches without an Ack"),
      Counter("svcmap_kube_batches_total", "Total number of batches sent"),
      Counter("svcmap_kube_snapshots_total", "Total number of snapshots started"),
      Counter("svcmap_kube_resumed_total",
              "Total number of streams that were resumed without a snapshot"),
      Counter("svcmap_kube_stream_failures_total",
              "Total number of closed streams to svcmapd and failed connection attempts"),
      Gauge("svcmap_kube_refused_objects",
            "Number of objects that svcmapd rejected. The previously accepted version of each "
            "object, if any, stays in effect"),
      Gauge("svcmap_kube_certificate_expiry_timestamp_seconds",
            "Unix time when the first certificate of a TLS file expires. Absent without TLS",
            {"file"}),
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
  for (const api::CertificateExpiry& certificate : facts.certificates) {
    page.Add("svcmap_kube_certificate_expiry_timestamp_seconds",
             static_cast<double>(std::chrono::system_clock::to_time_t(certificate.first)),
             {certificate.name});
  }
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

std::map<std::string, std::function<api::Answer()>> KubePages(std::function<BridgeFacts()> facts) {
  return {
      {"/livez", [] { return api::TextPage("ok"); }},
      {"/healthz", [facts] { return KubeHealthzAnswer(facts()); }},
      {"/metrics", api::MetricsPage([facts] { return KubeMetricsText(facts(), SVCMAP_VERSION); })}};
}

}  // namespace svcmap::kube
