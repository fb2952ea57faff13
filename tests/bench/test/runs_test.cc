// Tests that run the svcmap-bench binary for a short time.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

using testing::RunOk;
using testing::TemporaryFolder;

struct Figure {
  std::string opponent, what, metric;
  double value = 0;
};

// Reads the samples file. record/samples.h describes the columns.
std::vector<Figure> ReadFigures(const std::string& path) {
  std::vector<Figure> figures;
  std::ifstream file(path);
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::istringstream fields(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    EXPECT_EQ(cells.size(), 7u) << line;
    if (cells.size() == 7) figures.push_back({cells[2], cells[3], cells[4], std::stod(cells[6])});
  }
  return figures;
}

struct RunCase {
  const char* name;
  std::vector<std::string> args;
  const char* metric;  // Metric that both compared implementations have for each step in `whats`.
  std::set<std::string> whats;
};

class RunsTest : public ::testing::TestWithParam<RunCase> {};

TEST_P(RunsTest, EveryOpponentGivesEveryFigure) {
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmap-bench",
                                   "--shapes=100x5",
                                   "--mix=mixed",
                                   "--rounds=1",
                                   "--opponents=netlink,svcmap",
                                   "--svcmapd=" SVCMAP_BIN_DIR "/svcmapd",
                                   "--out=" + folder.path()};
  argv.insert(argv.end(), GetParam().args.begin(), GetParam().args.end());
  ASSERT_OK_AND_ASSIGN(const std::string out, RunOk({.argv = argv}, std::chrono::seconds(60)));

  // Steps that each compared implementation has recorded.
  std::map<std::string, std::set<std::string>> seen;
  for (const Figure& figure : ReadFigures(folder.path() + "/samples.csv")) {
    for (const char* trouble : {"failed", "over-limit", "not-tried"}) {
      EXPECT_NE(figure.metric, trouble) << figure.opponent << " " << figure.what;
    }
    if (figure.metric != GetParam().metric) continue;
    EXPECT_GT(figure.value, 0) << figure.opponent << " " << figure.what;
    seen[figure.opponent].insert(figure.what);
  }
  EXPECT_EQ(seen["netlink"], GetParam().whats);
  EXPECT_EQ(seen["svcmap"], GetParam().whats);
  EXPECT_NE(out.find("| 100x5-mixed |"), std::string::npos) << out;
  EXPECT_TRUE(std::ifstream(folder.path() + "/machine.json").good());
}

INSTANTIATE_TEST_SUITE_P(
    All, RunsTest,
    ::testing::Values(RunCase{"Sync", {"sync", "--resync"}, "seconds", {"load", "resync"}},
                      RunCase{"Change",
                              {"change", "--samples=3"},
                              "seconds",
                              {"replace", "n-plus-1", "n-minus-1", "new-service", "deleted-service",
                               "rolling"}},
                      RunCase{"Churn",
                              {"churn", "--rates=20,200", "--seconds=1"},
                              "latency_seconds",
                              {"rate-20", "rate-200"}}),
    [](const auto& info) { return info.param.name; });

TEST(RunTest, LatencyDuringRepairIsOfSvcmapAlone) {
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  ASSERT_OK_AND_ASSIGN(
      const std::string out,
      RunOk({.argv = {SVCMAP_BIN_DIR "/svcmap-bench", "--shapes=20x2", "--rounds=1",
                      "--opponents=direct,svcmap,nftables", "--svcmapd=" SVCMAP_BIN_DIR "/svcmapd",
                      "--out=" + folder.path(), "latency", "--during=repair", "--seconds=1",
                      "--per-second=200"}},
            std::chrono::seconds(60)));
  std::set<std::string> seen;
  for (const Figure& figure : ReadFigures(folder.path() + "/samples.csv")) {
    seen.insert(figure.opponent + " " + figure.what);
  }
  EXPECT_EQ(seen,
            (std::set<std::string>{"direct tcp-quiet", "svcmap tcp-quiet", "svcmap tcp-repair"}));
  EXPECT_NE(out.find("S-149"), std::string::npos) << out;
}

TEST(RunTest, ChurnMakesNoRatioOfTheMinSyncPeriod) {
  ASSERT_OK_AND_ASSIGN(
      const std::string out,
      RunOk({.argv = {SVCMAP_BIN_DIR "/svcmap-bench", "--shapes=20x2", "--rounds=1",
                      "--opponents=svcmap,nftables", "--svcmapd=" SVCMAP_BIN_DIR "/svcmapd",
                      "churn", "--rates=20", "--seconds=1"}},
            std::chrono::seconds(60)));
  std::istringstream lines(out);
  std::vector<std::string> cells;  // Table cells of the compared implementation "nftables".
  for (std::string line; std::getline(lines, line);) {
    if (line.find("| nftables |") == std::string::npos) continue;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
  }
  ASSERT_GT(cells.size(), 8u) << out;
  EXPECT_EQ(cells[8], " - ") << out;
  EXPECT_NE(out.find("minSyncPeriod"), std::string::npos) << out;
}

TEST(RunTest, WhoFailsIsReportedAndNotTriedWithMore) {
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  ASSERT_OK(RunOk({.argv = {SVCMAP_BIN_DIR "/svcmap-bench", "--shapes=10x1,20x1", "--rounds=1",
                            "--opponents=svcmap,netlink", "--svcmapd=/nowhere/svcmapd",
                            "--out=" + folder.path(), "sync", "--no-warm-up"}})
                .status());
  std::set<std::string> troubles;
  int loads = 0;
  for (const Figure& figure : ReadFigures(folder.path() + "/samples.csv")) {
    if (figure.opponent == "svcmap") troubles.insert(figure.metric);
    loads += figure.opponent == "netlink" && figure.metric == "seconds";
  }
  EXPECT_EQ(troubles, (std::set<std::string>{"failed", "not-tried"}));
  EXPECT_EQ(loads, 2);
}

}  // namespace
}  // namespace svcmap::bench
