// Report about a node, printed by `svcmapd --preflight` and parsed by svcmapctl. svcmapctl must not
// link the netlink libraries because of their license (third_party/README.md). The format may
// change in any release, because both binaries have the same version. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/netlink/chain_reader.h"

namespace svcmap::api {

struct NodeReport {
  static constexpr char kOtherProxy[] = "other proxy";
  static constexpr char kLegacyFilter[] = "legacy filter";

  // `what` and `remedy` contain no line breaks.
  struct Warning {
    std::string what;
    std::string remedy;
    // Topic of the warning: kOtherProxy, kLegacyFilter, a chain that drops forwarded packets ("ip
    // filter FORWARD"), or empty.
    std::string about = "";

    std::string ToString() const { return what + "; remedy: " + remedy; }
  };
  std::string fatal;  // Reason why svcmapd cannot start, or empty.
  std::vector<Warning> warnings;
  std::vector<nft::ForeignChain> chains;  // All chains of nf_tables.
};

std::string NodeReportJson(const NodeReport& report);
absl::StatusOr<NodeReport> ParseNodeReport(std::string_view json);

}  // namespace svcmap::api
