#include "api/etcd/status_pages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/metrics/families.h"
#include "api/metrics/server.h"
#include "api/source/program.h"

namespace svcmap::etcd {
namespace {

constexpr char kPrefix[] = "svcmap_etcd_";

}  // namespace

const api::Catalogue& Metrics() {
  using api::Counter;
  using api::Gauge;
  static const api::Catalogue own = {
      Gauge("svcmap_etcd_build_info", "Version of svcmap-etcd. The value is always 1", {"version"}),
      Gauge("svcmap_etcd_listed",
            "Whether all objects have been listed completely (1) or not (0). The first push "
            "requires a list"),
      Gauge("svcmap_etcd_revision", "Revision of etcd up to which the objects are cached"),
      Gauge("svcmap_etcd_seq", "Sequence number of the last cached transaction"),
      Gauge("svcmap_etcd_acknowledged_seq",
            "Sequence number of the last transaction that svcmapd has programmed"),
      Gauge("svcmap_etcd_epoch", "Epoch of the writer in the last cached transaction"),
      Gauge("svcmap_etcd_head_age_seconds",
            "Time in seconds since the last new head was received, or since the start if none was "
            "received. The writer writes the head every 10 s"),
      Counter("svcmap_etcd_lists_total",
              "Total number of completed lists, including lists of differences"),
      Counter("svcmap_etcd_watches_total", "Total number of watches that were started"),
      Counter("svcmap_etcd_transactions_total",
              "Total number of transactions that watches have received"),
      Counter("svcmap_etcd_failures_total", "Total number of failed requests to etcd"),
      Counter("svcmap_etcd_gaps_total",
              "Total number of lists because a watch has lost transactions"),
      Counter("svcmap_etcd_histories_total",
              "Total number of lists because etcd has another history, for example after a restore "
              "from a backup"),
      Counter("svcmap_etcd_expired_total",
              "Total number of lists because the cached revision was compacted or does not exist"),
      Counter("svcmap_etcd_foreign_total",
              "Total number of changes without a head, which the writer has not made"),
      Counter("svcmap_etcd_silences_total",
              "Total number of checks because no transaction was received for --silence seconds"),
      Gauge("svcmap_etcd_rejected_keys",
            "Number of keys below the prefix whose value cannot be used, and of unknown keys"),
      Gauge("svcmap_etcd_held",
            "Whether svcmapd holds the removals of a snapshot (1) or not (0). See svcmapctl "
            "accept-snapshot"),
      Counter("svcmap_etcd_status_failures_total",
              "Total number of failed writes of the node's status to etcd (--status-prefix)"),
  };
  static const api::Catalogue all = source::WithPushMetrics(kPrefix, own);
  return all;
}

std::string MetricsText(const Facts& facts, const std::string& version) {
  const FollowerFacts& etcd = facts.etcd;
  api::Families page(Metrics());
  page.Add("svcmap_etcd_build_info", 1, {version});
  page.Add("svcmap_etcd_listed", etcd.listed ? 1 : 0);
  page.Add("svcmap_etcd_revision", static_cast<double>(etcd.revision));
  page.Add("svcmap_etcd_seq", static_cast<double>(etcd.head.seq));
  page.Add("svcmap_etcd_acknowledged_seq", static_cast<double>(facts.push.position));
  page.Add("svcmap_etcd_epoch", static_cast<double>(etcd.head.epoch));
  page.Add(
      "svcmap_etcd_head_age_seconds",
      std::chrono::duration<double>(facts.now - std::max(etcd.last_head, facts.started)).count());
  page.Add("svcmap_etcd_lists_total", static_cast<double>(etcd.lists));
  page.Add("svcmap_etcd_watches_total", static_cast<double>(etcd.watches));
  page.Add("svcmap_etcd_transactions_total", static_cast<double>(etcd.transactions));
  page.Add("svcmap_etcd_failures_total", static_cast<double>(etcd.failures));
  page.Add("svcmap_etcd_gaps_total", static_cast<double>(etcd.gaps));
  page.Add("svcmap_etcd_histories_total", static_cast<double>(etcd.histories));
  page.Add("svcmap_etcd_expired_total", static_cast<double>(etcd.expired));
  page.Add("svcmap_etcd_foreign_total", static_cast<double>(etcd.foreign));
  page.Add("svcmap_etcd_silences_total", static_cast<double>(etcd.silences));
  page.Add("svcmap_etcd_rejected_keys", static_cast<double>(etcd.rejected_keys));
  page.Add("svcmap_etcd_held", facts.push.held.empty() ? 0 : 1);
  page.Add("svcmap_etcd_status_failures_total", static_cast<double>(facts.status_failures));
  source::AddPushMetrics(kPrefix, facts.mirror, facts.push, facts.certificates, page);
  return api::ToText(std::move(page).Take());
}

api::Answer HealthzAnswer(const Facts& facts) {
  const auto line = [](const char* problem, const std::string& why) {
    return absl::StrCat(problem, why.empty() ? "" : ": ", why, "\n");
  };
  std::string missing;
  if (!facts.etcd.listed) {
    missing += line("objects not listed yet", facts.etcd.last_error);
  }
  if (!facts.push.synced) missing += line("svcmapd not synced", facts.push.last_error);
  if (!facts.push.held.empty()) {
    missing += line("svcmapd holds the removals of the snapshot", facts.push.held);
  }
  return missing.empty() ? api::TextPage("ok") : api::TextPage(missing, 503);
}

std::map<std::string, std::function<api::Answer()>> Pages(const std::function<Facts()>& facts) {
  return {{"/livez", [] { return api::TextPage("ok"); }},
          {"/healthz", [facts] { return HealthzAnswer(facts()); }},
          {"/metrics", api::MetricsPage([facts] { return MetricsText(facts(), SVCMAP_VERSION); })}};
}

}  // namespace svcmap::etcd
