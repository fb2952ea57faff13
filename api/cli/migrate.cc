// Implements `svcmapctl migrate check`. The command inspects the local node with `svcmapd
// --preflight` and iptables-save, and reads the findings of the agent, if an agent runs.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "api/cli/commands.h"
#include "api/cli/text.h"
#include "api/manifests/json_text.h"
#include "api/migration/kube_proxy_process.h"
#include "api/migration/program.h"

namespace svcmap::api {
namespace {

absl::StatusOr<NodeReport> QuerySvcmapd() {
  const absl::StatusOr<std::string> json = RunPreflight();
  if (!json.ok()) return json.status();
  return ParseNodeReport(*json);
}

MigrationFacts ReadMigrationFacts() {
  MigrationFacts facts;
  facts.kube_proxy = FindKubeProxy();
  facts.virtual_servers = HasVirtualServers();
  facts.interfaces = InterfaceNames();
  facts.addresses = InterfaceAddresses();
  if (absl::StatusOr<NodeReport> report = QuerySvcmapd(); report.ok()) {
    facts.report = *std::move(report);
  } else {
    facts.unread.push_back(
        absl::StrCat("kernel features and nf_tables: ", std::string(report.status().message())));
  }
  // Only the report lists the chains of iptables-nft, so iptables-nft is not run without a report.
  facts.iptables =
      ReadIptables(facts.report ? facts.report->chains : std::vector<nft::ForeignChain>(),
                   [](const nft::ForeignChain&) { return true; });
  return facts;
}

// Returns true for findings about the node, and about addresses that belong to the node or its
// network, such as the clusterIP of a Service.
bool ConcernsNode(const v1::ObjectResult& finding) {
  return finding.kind() == v1::KIND_NODE || finding.kind() == v1::KIND_SERVICE_CIDR ||
         (finding.kind() == v1::KIND_SERVICE && finding.field() == "spec.clusterIP" &&
          finding.severity() == v1::WARNING && finding.code() == v1::INVALID);
}

// Before a migration, usually no agent runs.
std::vector<std::string> AgentFindings(Client& client) {
  constexpr std::chrono::seconds kLimit{2};
  std::vector<std::string> findings;
  const absl::StatusOr<v1::GetStatusResponse> status = client.GetStatus(kLimit);
  if (!status.ok()) return findings;
  for (const v1::ObjectResult& finding : status->findings()) {
    if (ConcernsNode(finding)) findings.push_back(OneLine(finding.message()));
  }
  return findings;
}

}  // namespace

std::string FindingsText(const std::vector<MigrationFinding>& findings) {
  std::string page;
  size_t attention = 0;
  for (const MigrationFinding& finding : findings) {
    if (finding.attention) ++attention;
    absl::StrAppend(&page, finding.attention ? "ATTENTION  " : "NOTE       ", OneLine(finding.what),
                    "\n  effect   ", OneLine(finding.effect), "\n  remedy   ",
                    OneLine(finding.remedy), "\n\n");
  }
  const size_t notes = findings.size() - attention;
  absl::StrAppend(&page,
                  attention == 0   ? "No problems found"
                  : attention == 1 ? "1 finding needs attention"
                                   : absl::StrCat(attention, " findings need attention"),
                  notes == 0 ? "" : ", " + CountText(notes, "note"), ".\n");
  return page;
}

std::string FindingsJson(const std::vector<MigrationFinding>& findings) {
  using Json = nlohmann::ordered_json;
  const bool attention = std::ranges::any_of(findings, &MigrationFinding::attention);
  Json json = {{"attention", attention}, {"findings", Json::array()}};
  for (const MigrationFinding& finding : findings) {
    json["findings"].push_back({{"level", finding.attention ? "attention" : "note"},
                                {"what", finding.what},
                                {"effect", finding.effect},
                                {"remedy", finding.remedy}});
  }
  return JsonText(json);
}

ExitCode RunMigrateCheck(const Options& options, Session& session) {
  MigrationFacts facts = ReadMigrationFacts();
  facts.agent_findings = AgentFindings(session.client);
  const std::vector<MigrationFinding> findings = JudgeMigration(facts);
  session.out << (options.output == OutputFormat::kJson ? FindingsJson(findings)
                                                        : FindingsText(findings));
  const bool attention = std::ranges::any_of(findings, &MigrationFinding::attention);
  return attention ? ExitCode::kAttention : ExitCode::kOk;
}

}  // namespace svcmap::api
