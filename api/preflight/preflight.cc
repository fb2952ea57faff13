#include "api/preflight/preflight.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace svcmap::api {

absl::Status ProbeTables(const nft::TableSpecs& tables) {
  const absl::StatusOr<std::vector<nft::MissingFeature>> missing_features =
      nft::FindMissingFeatures(tables);
  return missing_features.ok() ? MissingFeaturesStatus(*missing_features, ReadKernelFacts())
                               : missing_features.status();
}

absl::Status CheckKernel(const nft::TableSpecs& tables) {
  absl::Status status = ProbeTables(tables);
  if (!absl::IsPermissionDenied(status)) return status;
  return absl::PermissionDeniedError(
      absl::StrCat(std::string(status.message()),
                   "; remedy: run as root or with this capability (systemd: AmbientCapabilities="
                   "CAP_NET_ADMIN; pod: securityContext.capabilities.add: [NET_ADMIN])"));
}

absl::StatusOr<std::vector<Warning>> Preflight(const nft::TableSpecs& tables) {
  // CheckKernel runs first, because CheckKernel makes the kernel load modules that provide some
  // sysctls.
  if (const absl::Status status = CheckKernel(tables); !status.ok()) return status;
  return Judge(ReadFacts());
}

NodeReport ReportNode(const nft::TableSpecs& tables) {
  NodeReport report;
  report.fatal = std::string(CheckKernel(tables).message());
  Facts facts = ReadFacts();
  report.warnings = Judge(facts);
  report.chains = std::move(facts.chains);
  return report;
}

}  // namespace svcmap::api
