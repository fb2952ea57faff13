// svcmap-etcd: reads Services and endpoints from etcd and sends them to svcmapd.
#include <spdlog/spdlog.h>

#include <optional>

#include "absl/strings/str_join.h"
#include "api/etcd/client.h"
#include "api/etcd/options.h"
#include "api/etcd/status_pages.h"
#include "api/etcd/status_reporter.h"
#include "api/log/log_value.h"
#include "api/process/fatal.h"
#include "api/source/program.h"
#include "api/source/push.h"

namespace svcmap::etcd {
namespace {

int Run(const ProgramOptions& options) {
  const sigset_t signals = source::BlockSignals();
  spdlog::info("starting svcmap-etcd version={} node={} etcd={} prefix={} agent={}", SVCMAP_VERSION,
               api::LogValue(options.etcd.follower.node_name),
               api::LogValue(absl::StrJoin(options.urls, ",")),
               api::LogValue(options.etcd.follower.prefix), api::LogValue(options.agent));

  const auto started = std::chrono::steady_clock::now();
  Mirror mirror;
  const Client client(options.etcd, mirror);
  const source::Push push(source::PushOptionsOf(options, "svcmap-etcd"), mirror);

  const auto read_state = [&] {
    Facts facts;
    facts.etcd = client.facts();
    facts.mirror = mirror.counts();
    facts.push = push.facts();
    return facts;
  };
  std::optional<StatusReporter> reporter;
  if (!options.status_prefix.empty()) {
    reporter.emplace(options.etcd, options.status_prefix, options.etcd.follower.node_name,
                     options.agent_address, read_state);
  }
  const auto read_facts = [&] {
    Facts facts = read_state();
    if (reporter) facts.status_failures = reporter->failures();
    facts.certificates = api::ReadExpiries({{"tls-cert", options.tls.certificate},
                                            {"tls-ca", options.tls.ca},
                                            {"etcd-cert", options.etcd.tls.certificate},
                                            {"etcd-ca", options.etcd.tls.ca}});
    facts.started = started;
    facts.now = std::chrono::steady_clock::now();  // Read last, so that no age is negative.
    return facts;
  };
  return source::ServeUntilEnd(options, Pages(read_facts), signals, /*config=*/nullptr);
}

}  // namespace
}  // namespace svcmap::etcd

int main(int argc, char** argv) {
  svcmap::api::LogFatalErrors("svcmap-etcd");
  const auto parsed = svcmap::etcd::ParseOptions(argc, argv);
  if (parsed.exit) return *parsed.exit;
  svcmap::source::SetUpProgram(parsed.options.verbosity);
  return svcmap::etcd::Run(parsed.options);
}
