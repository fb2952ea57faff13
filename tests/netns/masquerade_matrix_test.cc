// Tests of the masquerade matrix, with three Services in three configurations.
// decision_table_test.cc tests the default configuration. Each Service has a local and a remote
// endpoint. Service A has policy Cluster, Service B has externalTrafficPolicy Local, and Service C
// has internalTrafficPolicy Local. There is one test per row, configuration and family.
#include "tests/netns/flow.h"

namespace svcmap::testing {
namespace {

const Objects kA = {ExternalWeb("shop/web", kV)};
const Objects kB = {ExternalWeb("shop/web", kV).ExternalPolicy("Local")};
const Objects kC = {ExternalWeb("shop/web", kV).InternalPolicy("Local")};

enum Configuration { kNoDetector, kMasqueradeAll, kMasqueradeAllNoDetector };

std::vector<std::string> FlagsOf(Configuration configuration) {
  std::vector<std::string> flags;
  if (configuration != kMasqueradeAll) flags.insert(flags.end(), {"--cluster-cidr", ""});
  if (configuration != kNoDetector) flags.push_back("--masquerade-all");
  return flags;
}

// One row of the matrix. Cells are in the order of Configuration.
struct MatrixRow {
  const char* requirement;
  const char* what;
  const Objects& services;
  Names sources;
  Names destinations;
  const char* cells[3];
};

std::vector<Row> Column(Configuration configuration) {
  const Names kClusterIp = {"V:80"};
  const MatrixRow kRows[] = {
      {"S191", "PodToAClusterIp", kA, {"P"}, kClusterIp, {"L1,R1 -", "L1,R1 m", "L1,R1 m"}},
      {"S192", "PodToAExternal", kA, {"P"}, kExternal, {"L1,R1 m", "L1,R1 m", "L1,R1 m"}},
      {"S193", "OthersToAClusterIp", kA, {"N", "X"}, kClusterIp, {"L1,R1 -", "L1,R1 m", "L1,R1 m"}},
      {"S194", "OthersToAExternal", kA, {"N", "X"}, kExternal, {"L1,R1 m", "L1,R1 m", "L1,R1 m"}},
      {"S195", "PodToBClusterIp", kB, {"P"}, kClusterIp, {"L1,R1 -", "L1,R1 m", "L1,R1 m"}},
      {"S196", "PodToBExternal", kB, {"P"}, kExternal, {"L1 -", "L1,R1 -", "L1 -"}},
      {"S197", "OthersToBClusterIp", kB, {"N", "X"}, kClusterIp, {"L1,R1 -", "L1,R1 m", "L1,R1 m"}},
      {"S198", "NodeToBExternal", kB, {"N"}, kExternal, {"L1,R1 m", "L1,R1 m", "L1,R1 m"}},
      {"S199", "ClientToBExternal", kB, {"X"}, kExternal, {"L1 -", "L1 -", "L1 -"}},
      {"S200", "PodToCClusterIp", kC, {"P"}, kClusterIp, {"L1 -", "L1 m", "L1 m"}},
      {"S201", "OthersToCClusterIp", kC, {"N", "X"}, kClusterIp, {"L1 -", "L1 m", "L1 m"}},
      {"S202", "AllToCExternal", kC, {"P", "N", "X"}, kExternal, {"L1,R1 m", "L1,R1 m", "L1,R1 m"}},
  };
  std::vector<Row> rows;
  for (const MatrixRow& row : kRows) {
    rows.push_back({row.requirement, row.what, row.services, "L1 R1",
                    Each(row.sources, row.destinations, row.cells[configuration])});
  }
  return rows;
}

// Hairpin connections are masqueraded in every configuration.
Row HairpinRow(const char* requirement) {
  return {requirement, "Hairpin", kA, "L1", Each({"L1"}, {"V:80", "VIP:80", "N:NP"}, "L1 m")};
}

template <Configuration kConfiguration>
class Matrix : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override { return FlagsOf(kConfiguration); }
};

using MatrixNoDetector = Matrix<kNoDetector>;
using MatrixMasqueradeAll = Matrix<kMasqueradeAll>;
using MatrixMasqueradeAllNoDetector = Matrix<kMasqueradeAllNoDetector>;

TEST_P(MatrixNoDetector, Row) { Check(); }
TEST_P(MatrixMasqueradeAll, Row) { Check(); }
TEST_P(MatrixMasqueradeAllNoDetector, Row) { Check(); }

INSTANTIATE_ROWS(MatrixNoDetector,
                 Column(kNoDetector) +
                     std::vector<Row>{
                         HairpinRow("S71_S91"),
                         // Without pod detection, svcmapd treats a pod like any
                         // client.
                         {"S68_S91", "LocalWithRemoteEndpointsOnly", kB, "R1 R2",
                          Each({"P", "X"}, kExternal, "DROP") + Each({"N"}, kExternal, "R1,R2 m") +
                              Each({"P", "N", "X"}, {"V:80"}, "R1,R2 -")}});
INSTANTIATE_ROWS(MatrixMasqueradeAll,
                 Column(kMasqueradeAll) + std::vector<Row>{HairpinRow("S90"),
                                                           {"S90", "PodElsewhere", kB, "L1 R1",
                                                            Each({"Q"}, {"V:80"}, "L1,R1 m")}});
INSTANTIATE_ROWS(MatrixMasqueradeAllNoDetector,
                 Column(kMasqueradeAllNoDetector) + std::vector<Row>{HairpinRow("S90_S91")});

}  // namespace
}  // namespace svcmap::testing
