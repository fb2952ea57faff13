// Loads and lists rules of a network namespace with the syntax of nft(8). Two object libraries
// implement ListNft and RunNft (process.h), and each program links one of them:
//
// - svcmap_test_nft_library (nft_library.cc) calls libnftables in this process. All test programs
//   link it. If SVCMAP_TEST_NFT is set, it runs this program instead, for example a newer nft.
// - svcmap_test_nft_program (nft_program.cc) runs nft. Programs that are distributed link it,
//   because libnftables is GPL-2.0-only (third_party/README.md).
//
// Tests of the nft program itself run nft with RunOk() of process.h.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"

namespace svcmap::testing {

// Returns the output of a command, like `nft ARGUMENTS`. `arguments` consists of the options -a,
// -n, -s, -t or -y, and a command, for example "-s list ruleset".
absl::StatusOr<std::string> ListNft(const NetNs& netns, const std::string& arguments);

// Implements RunNft and ListNft with the program `nft`, which is a path or a name in PATH.
absl::Status RunNftProgram(const std::string& nft, const NetNs& netns, const std::string& script);
absl::StatusOr<std::string> ListNftProgram(const std::string& nft, const NetNs& netns,
                                           const std::string& arguments);

}  // namespace svcmap::testing
