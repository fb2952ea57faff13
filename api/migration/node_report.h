// What svcmapd finds on its node, as `svcmapd --preflight` prints it and svcmapctl reads it, who
// may not speak netlink itself (third_party/README.md). Pure functions. The form may change with
// any version: both programs are of one.
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

  struct Warning {
    // One of these two; or a chain that drops what is forwarded, "ip filter FORWARD"; or empty.
    std::string about;
    std::string what;
    std::string remedy;
  };
  std::string fatal;  // Why svcmapd would not start; empty: it would.
  std::vector<Warning> warnings;
  std::vector<nft::ForeignChain> chains;  // Of nf_tables, everybody's.
};

std::string NodeReportJson(const NodeReport& report);
absl::StatusOr<NodeReport> ParseNodeReport(std::string_view json);

}  // namespace svcmap::api
