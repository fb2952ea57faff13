#include "api/kube/status_pages.h"

#include <algorithm>
#include <utility>

#include "api/source/program.h"

namespace svcmap::kube {
namespace {

constexpr char kPrefix[] = "svcmap_kube_";
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
  static const api::Catalogue own = {
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
  };
  static const api::Catalogue all = source::WithPushMetrics(kPrefix, own);
  return all;
}

std::string KubeMetricsText(const BridgeFacts& facts, const std::string& version) {
  api::Families page(KubeMetrics());
  page.Add("svcmap_kube_build_info", 1, {version});
  for (size_t i = 0; i < kResources.size(); ++i) {
    AddWatch(std::string(ResourceName(kResources[i])), facts.watches[i], facts, page);
  }
  source::AddPushMetrics(kPrefix, facts.mirror, facts.push, facts.certificates, page);
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
  if (!facts.startup_taint_error.empty()) {
    without += ", startup taint not removed: " + facts.startup_taint_error + "\n";
  }
  if (!facts.push.synced) {
    missing += "svcmapd not synced";
    missing += facts.push.last_error.empty() ? "\n" : ": " + facts.push.last_error + "\n";
  }
  return missing.empty() ? api::TextPage("ok" + without) : api::TextPage(missing, 503);
}

api::Pages KubePages(std::function<BridgeFacts()> facts) {
  return {
      {"/livez", [] { return api::TextPage("ok"); }},
      {"/healthz", [facts] { return KubeHealthzAnswer(facts()); }},
      {"/metrics", api::MetricsPage([facts] { return KubeMetricsText(facts(), SVCMAP_VERSION); })}};
}

}  // namespace svcmap::kube
