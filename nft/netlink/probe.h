// Tests whether the kernel supports all features that svcmap's tables use, and the deletion of
// tracked connections. The test does not change any table. The probe sends batches without their
// end message. The kernel validates such a batch and then aborts the batch, as for `nft --check`.
// During the validation, svcmap's base chains are registered at their hooks, but are empty and have
// policy accept.
//
// Like nft --check, the probe does not detect jump loops or too many nested jumps. The kernel
// detects these errors only in existing tables or during a commit (Linux 6.18).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/model/table.h"

namespace svcmap::nft {

// A feature that svcmap's rules need and the kernel does not support.
struct MissingFeature {
  Family family = Family::kIpv4;
  std::string feature;  // Description: "masquerade".
  // Kernel option, such as "CONFIG_NFT_MASQ". Empty if no option of its own selects the feature.
  std::string option;
  // Kernel module, such as "nft_masq". Empty if the feature is a part of nf_tables, which has
  // responded to the probe.
  std::string module;
  int error = 0;  // The errno of the rejection.

  friend bool operator==(const MissingFeature&, const MissingFeature&) = default;
};

// Returns the missing features for `tables`, in the calling thread's network namespace. Returns an
// empty vector if all features are supported. Returns kPermissionDenied with an explanation if
// CAP_NET_ADMIN is missing. The probe takes a few tens of milliseconds, or longer if a feature is
// missing.
absl::StatusOr<std::vector<MissingFeature>> FindMissingFeatures(const TableSpecs& tables);

}  // namespace svcmap::nft
