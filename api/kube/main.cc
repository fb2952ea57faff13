// svcmap-kube: watches resources of the API server and sends the objects to svcmapd.
#include <spdlog/spdlog.h>

#include "api/kube/options.h"
#include "api/kube/status_pages.h"
#include "api/kube/watch/list_watch.h"
#include "api/log/log_value.h"
#include "api/process/fatal.h"
#include "api/source/program.h"
#include "api/source/push.h"

namespace svcmap::kube {
namespace {

int Run(const KubeOptions& options) {
  const sigset_t signals = source::BlockSignals();
  const absl::StatusOr<ApiServer> server = FindApiServer(options.kubeconfig, options.master);
  if (!server.ok()) return source::Fail(server.status());
  spdlog::info("starting svcmap-kube version={} node={} server={} agent={}", SVCMAP_VERSION,
               api::LogValue(options.selection.node_name), api::LogValue(server->url.ToString()),
               api::LogValue(options.agent));

  const auto started = std::chrono::steady_clock::now();
  Mirror mirror;
  ListWatches watches(*server, std::string("svcmap-kube/") + SVCMAP_VERSION,
                      {.selection = options.selection}, mirror, options.writes);
  source::PushOptions push_options = source::PushOptionsOf(options, "svcmap-kube");
  push_options.on_programmed = [&] { watches.ServicesProgrammed(); };
  push_options.on_finding = [&](const source::Finding& finding) { watches.Report(finding); };
  const source::Push push(std::move(push_options), mirror);

  const auto read_facts = [&] {
    BridgeFacts facts;
    facts.watches = watches.facts();
    facts.startup_taint_error = watches.startup_taint_error();
    facts.complete = mirror.complete();
    facts.mirror = mirror.counts();
    facts.push = push.facts();
    facts.certificates = api::ReadExpiries({{"tls-cert", options.tls.certificate},
                                            {"tls-ca", options.tls.ca},
                                            {"client-certificate", server->tls_files.certificate},
                                            {"certificate-authority", server->tls_files.ca}});
    const auto add = [&](const char* name, const std::string& pem) {
      if (const auto first = api::FirstExpiry(pem)) facts.certificates.push_back({name, *first});
    };
    add("client-certificate-data", server->tls_text.certificate);
    add("certificate-authority-data", server->tls_text.ca);
    facts.started = started;
    facts.now = std::chrono::steady_clock::now();  // Read last, so that no age is negative.
    return facts;
  };
  return source::ServeUntilEnd(options, KubePages(read_facts), signals,
                               options.config ? &*options.config : nullptr);
}

}  // namespace
}  // namespace svcmap::kube

int main(int argc, char** argv) {
  svcmap::api::LogFatalErrors("svcmap-kube");
  const auto parsed = svcmap::kube::ParseKubeOptions(argc, argv);
  if (parsed.exit) return *parsed.exit;
  svcmap::source::SetUpProgram(parsed.options.verbosity);
  for (const std::string& finding : parsed.options.findings) spdlog::info("{}", finding);
  return svcmap::kube::Run(parsed.options);
}
