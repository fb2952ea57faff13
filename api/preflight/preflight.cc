#include "api/preflight/preflight.h"

#include "absl/strings/str_cat.h"

namespace svcmap::api {

absl::Status CheckKernel(const nft::TableSpecs& tables) {
  const absl::StatusOr<std::vector<nft::MissingFeature>> missing_features =
      nft::FindMissingFeatures(tables);
  if (absl::IsPermissionDenied(missing_features.status())) {
    return absl::PermissionDeniedError(
        absl::StrCat(std::string(missing_features.status().message()),
                     "; remedy: run as root or with this capability (systemd: AmbientCapabilities="
                     "CAP_NET_ADMIN; pod: securityContext.capabilities.add: [NET_ADMIN])"));
  }
  return missing_features.ok()
             ? MissingFeaturesStatus(*missing_features, ModulesDisabled(ProcPaths().sysctl))
             : missing_features.status();
}

absl::StatusOr<std::vector<Warning>> Preflight(const nft::TableSpecs& tables) {
  // CheckKernel runs first, because CheckKernel makes the kernel load modules that provide some
  // sysctls.
  if (const absl::Status status = CheckKernel(tables); !status.ok()) return status;
  return Judge(ReadFacts());
}

absl::Status ProbeTables(const nft::TableSpecs& tables) {
  const absl::StatusOr<std::vector<nft::MissingFeature>> missing_features =
      nft::FindMissingFeatures(tables);
  return missing_features.ok()
             ? MissingFeaturesStatus(*missing_features, ModulesDisabled(ProcPaths().sysctl))
             : missing_features.status();
}

}  // namespace svcmap::api
