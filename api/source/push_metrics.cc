#include "api/source/push_metrics.h"

#include <chrono>
#include <string_view>

namespace svcmap::source {

api::Catalogue PushMetrics(const std::string& prefix) {
  using api::Counter;
  using api::Gauge;
  const auto name = [&](const char* rest) -> std::string_view {
    return *new std::string(prefix + rest);
  };
  return {
      Gauge(name("objects"), "Number of cached objects of all resources"),
      Gauge(name("object_bytes"), "Total size of the serialized cached objects in bytes"),
      Gauge(name("changes_waiting"), "Number of objects with changes that have not been sent yet"),
      Gauge(name("agent_connected"), "Whether a stream to svcmapd is open (1) or not (0)"),
      Gauge(name("agent_synced"),
            "1 if svcmapd has the complete state except for changes in flight, otherwise 0"),
      Gauge(name("agent_revision"), "Revision of svcmapd in the last Ack"),
      Gauge(name("batches_in_flight"), "Number of batches without an Ack"),
      Counter(name("batches_total"), "Total number of batches sent"),
      Counter(name("snapshots_total"), "Total number of snapshots started"),
      Counter(name("resumed_total"),
              "Total number of streams that were resumed without a snapshot"),
      Counter(name("stream_failures_total"),
              "Total number of closed streams to svcmapd and failed connection attempts"),
      Gauge(name("refused_objects"),
            "Number of objects that svcmapd rejected. The previously accepted version of each "
            "object, if any, stays in effect"),
      Gauge(name("certificate_expiry_timestamp_seconds"),
            "Unix time when the first certificate of a TLS file expires. Absent without TLS",
            {"file"}),
  };
}

void AddPushMetrics(const std::string& prefix, const Mirror::Counts& mirror, const PushFacts& push,
                    const std::vector<api::CertificateExpiry>& certificates, api::Families& page) {
  page.Add(prefix + "objects", static_cast<double>(mirror.objects));
  page.Add(prefix + "object_bytes", static_cast<double>(mirror.bytes));
  page.Add(prefix + "changes_waiting", static_cast<double>(mirror.waiting));
  page.Add(prefix + "agent_connected", push.connected ? 1 : 0);
  page.Add(prefix + "agent_synced", push.synced ? 1 : 0);
  page.Add(prefix + "agent_revision", static_cast<double>(push.revision));
  page.Add(prefix + "batches_in_flight", static_cast<double>(push.in_flight));
  page.Add(prefix + "batches_total", static_cast<double>(push.batches));
  page.Add(prefix + "snapshots_total", static_cast<double>(push.snapshots));
  page.Add(prefix + "resumed_total", static_cast<double>(push.resumed));
  page.Add(prefix + "stream_failures_total", static_cast<double>(push.failures));
  page.Add(prefix + "refused_objects", static_cast<double>(push.rejected));
  for (const api::CertificateExpiry& certificate : certificates) {
    page.Add(prefix + "certificate_expiry_timestamp_seconds",
             static_cast<double>(std::chrono::system_clock::to_time_t(certificate.first)),
             {certificate.name});
  }
}

}  // namespace svcmap::source
