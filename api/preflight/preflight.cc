#include "api/preflight/preflight.h"

#include "absl/strings/str_cat.h"

namespace svcmap::api {

absl::Status CheckKernel(const nft::TableSpecs& tables) {
  const absl::StatusOr<std::vector<nft::Lack>> lacks = nft::FindLacks(tables);
  if (absl::IsPermissionDenied(lacks.status())) {
    return absl::PermissionDeniedError(
        absl::StrCat(std::string(lacks.status().message()),
                     "; remedy: run as root or with this capability (systemd: AmbientCapabilities="
                     "CAP_NET_ADMIN; pod: securityContext.capabilities.add: [NET_ADMIN])"));
  }
  return lacks.ok() ? LackStatus(*lacks) : lacks.status();
}

absl::StatusOr<std::vector<Warning>> Preflight(const nft::TableSpecs& tables) {
  // CheckKernel comes first, because it makes the kernel load modules that provide some sysctls.
  if (const absl::Status status = CheckKernel(tables); !status.ok()) return status;
  return Judge(ReadFacts());
}

absl::Status ProbeTables(const nft::TableSpecs& tables) {
  const absl::StatusOr<std::vector<nft::Lack>> lacks = nft::FindLacks(tables);
  return lacks.ok() ? LackStatus(*lacks) : lacks.status();
}

}  // namespace svcmap::api
