#include "api/source/program.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/config/program_options.h"
#include "api/convert/quote.h"
#include "api/log/log_value.h"
#include "api/log/set_up_log.h"
#include "api/process/clock_watch.h"
#include "api/process/notify.h"
#include "nft/base/status.h"

namespace svcmap::source {
namespace {

absl::StatusOr<api::BindAddress> ParseBindAddress(const std::string& text) {
  const absl::StatusOr<api::BindAddress> at = api::BindAddress::Parse(text, /*default_port=*/0);
  if (at.ok() && at->port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid value: ", api::Quote(text), ": must contain a port"));
  }
  return at;
}

std::string Instance() {
  const char* pod = std::getenv("POD_NAME");
  return pod != nullptr && *pod != '\0' ? pod : api::NodeName("");
}

}  // namespace

void AddAgentOptions(CLI::App& app, AgentOptions& options) {
  app.add_option("--agent", options.agent, "Address of svcmapd: unix:///path or tcp://host:port")
      ->capture_default_str();
  app.add_option("--tls-ca", options.tls.ca,
                 "PEM file with the CA certificates that verify svcmapd's certificate (tcp:// "
                 "only). " +
                     app.get_name() + " reads all --tls-* files again for each connection");
  app.add_option("--tls-cert", options.tls.certificate,
                 "PEM file with the client certificate (tcp:// only)");
  app.add_option("--tls-key", options.tls.key,
                 "PEM file with the private key of the client certificate (tcp:// only)");
  app.add_option("--healthz-bind-address", options.healthz,
                 "Address and port of /healthz, /livez and /metrics; an empty value disables them");
  app.add_flag("-v", options.verbosity, "Increase log verbosity; -vv for maximum");
}

absl::Status FinishAgentOptions(AgentOptions& options) {
  options.instance = Instance();
  const absl::StatusOr<std::string> target = api::ParseTarget(options.agent);
  if (!target.ok()) return Annotate(target.status(), "--agent");
  options.target = *target;
  if (absl::Status status = api::CheckTlsFlags(options.tls, options.agent); !status.ok()) {
    return status;
  }
  if (options.healthz.empty()) return absl::OkStatus();
  const absl::StatusOr<api::BindAddress> at = ParseBindAddress(options.healthz);
  if (!at.ok()) return Annotate(at.status(), "--healthz-bind-address");
  options.healthz_bind_address = *at;
  return absl::OkStatus();
}

void SetUpProgram(int verbosity) {
  api::SetUpLog(verbosity);
  // Keeps gRPC initialized until exit. Otherwise, gRPC 1.51 may wait up to 10 s for its poller at
  // shutdown if a socket was full before.
  grpc_init();
  // The sources log relevant errors themselves, so gRPC's own messages are only for debugging.
  gpr_set_log_function([](gpr_log_func_args* line) { spdlog::debug("gRPC: {}", line->message); });
}

int Fail(const absl::Status& status) {
  spdlog::critical("{}", std::string(status.message()));
  return 1;
}

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

int ServeUntilEnd(const AgentOptions& options, api::Pages pages, const sigset_t& signals,
                  const api::ConfigurationFile* config) {
  absl::StatusOr<std::unique_ptr<api::PageServer>> server = nullptr;
  if (options.healthz_bind_address) {
    server = api::PageServer::Start({.bind_address = *options.healthz_bind_address,
                                     .what = "/healthz, /livez and /metrics",
                                     .pages = std::move(pages)});
    if (!server.ok()) return Fail(server.status());
  }
  absl::StatusOr<std::unique_ptr<api::ConfigWatch>> watch = nullptr;
  if (config != nullptr) {
    watch = api::ConfigWatch::Start(*config);
    if (!watch.ok()) return Fail(watch.status());
  }
  constexpr timespec kClockInterval = {.tv_sec = 1, .tv_nsec = 0};
  api::ClockWatch clock;
  int signal = 0;
  while ((signal = sigtimedwait(&signals, nullptr, &kClockInterval)) < 0) clock.Check();
  if (*watch != nullptr && (*watch)->changed()) {
    api::NotifyStopping("the configuration file has changed; the rules stay in effect");
    return Fail(absl::AbortedError(
        "the configuration file has changed, exiting to be restarted with the new file; the rules "
        "stay in effect"));
  }
  spdlog::info("stopping, rules stay in effect signal={}", api::LogValue(strsignal(signal)));
  api::NotifyStopping("stopping; the rules stay in effect");
  return 0;
}

PushOptions PushOptionsOf(const AgentOptions& options, const std::string& name) {
  PushOptions push;
  push.name = name;
  push.target = options.target;
  push.tls = options.tls;
  push.instance = options.instance;
  // An attempt to connect to a missing Unix socket is cheap.
  if (options.target.starts_with("unix:")) push.last_retry = std::chrono::seconds(1);
  push.on_synced = [] { api::NotifyReady("all objects are synced to svcmapd"); };
  return push;
}

api::Catalogue WithPushMetrics(const std::string& prefix, api::Catalogue metrics) {
  using api::Counter;
  using api::Gauge;
  const api::Catalogue push = {
      Gauge(prefix + "objects", "Number of cached objects of all resources"),
      Gauge(prefix + "object_bytes", "Total size of the serialized cached objects in bytes"),
      Gauge(prefix + "changes_waiting",
            "Number of objects with changes that have not been sent yet"),
      Gauge(prefix + "agent_connected", "Whether a stream to svcmapd is open (1) or not (0)"),
      Gauge(prefix + "agent_synced",
            "1 if svcmapd has the complete state except for changes in flight, otherwise 0"),
      Gauge(prefix + "agent_revision", "Revision of svcmapd in the last Ack"),
      Gauge(prefix + "batches_in_flight", "Number of batches without an Ack"),
      Counter(prefix + "batches_total", "Total number of batches sent"),
      Counter(prefix + "snapshots_total", "Total number of snapshots started"),
      Counter(prefix + "resumed_total",
              "Total number of streams that were resumed without a snapshot"),
      Counter(prefix + "stream_failures_total",
              "Total number of closed streams to svcmapd and failed connection attempts"),
      Gauge(prefix + "refused_objects",
            "Number of objects that svcmapd rejected. The previously accepted version of each "
            "object, if any, stays in effect"),
      Gauge(prefix + "certificate_expiry_timestamp_seconds",
            "Unix time when the first certificate of a TLS file expires. Absent without TLS",
            {"file"}),
  };
  metrics.insert(metrics.end(), push.begin(), push.end());
  return metrics;
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
