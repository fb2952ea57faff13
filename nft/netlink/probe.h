// Finds out whether this kernel can do what our tables are made of, and changes nothing: it sends
// batches without their end, which the kernel checks, aborts and forgets (as for nft --check).
// While it checks one, our base chains hang on their hooks, empty and with policy accept.
//
// Not found, as little as by nft --check: jumps in a circle or too deep. The kernel looks for those
// in a table that is there already, or when it commits (Linux 6.18).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/model/table.h"

namespace svcmap::nft {

// Something that the rules need and the kernel has not.
struct Lack {
  Family family = Family::kIpv4;
  std::string feature;  // In words: "masquerade".
  std::string option;   // "CONFIG_NFT_MASQ"; empty if the kernel refuses what all of them have.
  std::string module;   // "nft_masq"; empty as above.
  int error = 0;        // The errno with which the kernel refused it.

  friend bool operator==(const Lack&, const Lack&) = default;
};

// What is lacking for `tables`, nothing if they work; in the calling thread's network namespace.
// kPermissionDenied, and a message that says so, without CAP_NET_ADMIN. Takes a few tens of
// milliseconds, longer if something is lacking.
absl::StatusOr<std::vector<Lack>> FindLacks(const TableSpecs& tables);

}  // namespace svcmap::nft
