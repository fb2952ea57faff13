// Runs each workload of svcmap-bench for a short time with all compared implementations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

using Names = std::set<std::string>;

struct RunCase {
  std::string name;
  std::vector<std::string> args;
  Names opponents;
  std::string metric;  // Metric that all opponents have for each step in `whats`.
  Names whats;
  Names without_figures = {};  // Compared implementations that the workload must skip.
};

class RunsTest : public ::testing::TestWithParam<RunCase> {};

TEST_P(RunsTest, EveryOpponentGivesEveryFigure) {
  ASSERT_OK_AND_ASSIGN(const auto folder, testing::TemporaryFolder::Make());
  std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmap-bench", "--shapes=100x5", "--rounds=1",
                                   "--out=" + folder.path()};
  Names opponents = GetParam().opponents;
  opponents.insert(GetParam().without_figures.begin(), GetParam().without_figures.end());
  argv.push_back("--opponents=" + absl::StrJoin(opponents, ","));
  argv.insert(argv.end(), GetParam().args.begin(), GetParam().args.end());
  ASSERT_OK_AND_ASSIGN(const std::string out,
                       testing::RunOk({.argv = argv}, std::chrono::seconds(120)));

  std::map<std::string, Names> seen;  // Steps that each opponent has recorded.
  std::ifstream file(folder.path() + "/samples.csv");
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ASSERT_EQ(cells.size(), 7u) << line;
    const std::string &opponent = cells[2], &metric = cells[4];
    for (const char* trouble : {"failed", "over-limit", "not-tried"}) {
      EXPECT_NE(metric, trouble) << line;
    }
    // Each flow reaches an endpoint with the rules of each opponent, except while they are
    // rewritten or damaged.
    if (metric == "failures" && cells[3] != "tcp-sync" && cells[3] != "tcp-repair") {
      EXPECT_EQ(cells[6], "0") << line;
    }
    if (metric == GetParam().metric) seen[opponent].insert(cells[3]);
  }
  for (const std::string& opponent : GetParam().opponents) {
    EXPECT_THAT(GetParam().whats, ::testing::IsSubsetOf(seen[opponent])) << opponent;
  }
  for (const std::string& opponent : GetParam().without_figures) {
    EXPECT_FALSE(seen.contains(opponent)) << opponent;
  }
  EXPECT_NE(out.find("| 100x5"), std::string::npos) << out;
  EXPECT_TRUE(std::ifstream(folder.path() + "/machine.json").good());
}

const Names kRules = {"svcmap",           "nftables",        "nftables-single", "nftables-shared",
                      "nftables-library", "iptables-legacy", "iptables-nft"};

Names With(Names names, const std::string& name) {
  names.insert(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(
    All, RunsTest,
    ::testing::Values(
        RunCase{"Sync", {"--mix=mixed", "sync"}, With(kRules, "netlink"), "seconds", {"load"}},
        RunCase{"Change",
                {"--mix=mixed", "change", "--samples=3"},
                With(kRules, "netlink"),
                "seconds",
                {"replace", "n-plus-1", "n-minus-1", "new-service", "deleted-service", "rolling"}},
        RunCase{"Churn",
                {"churn", "--rates=20,200", "--seconds=1"},
                {"netlink", "svcmap", "nftables"},
                "latency_seconds",
                {"rate-20", "rate-200"}},
        RunCase{"Latency",
                {"latency", "--flows=100"},
                With(kRules, "direct"),
                "p50_us",
                {"tcp-first", "tcp-middle", "tcp-last", "udp-first", "udp-middle", "udp-last"}},
        RunCase{"DuringSync",
                {"latency", "--during=sync", "--seconds=1"},
                {"svcmap", "nftables"},
                "count",
                {"tcp-quiet", "tcp-sync"}},
        // Of the compared implementations, only svcmapd repairs its rules.
        RunCase{"DuringRepair",
                {"latency", "--during=repair", "--seconds=1"},
                {"svcmap"},
                "count",
                {"tcp-quiet", "tcp-repair"},
                {"nftables"}},
        RunCase{"Connections",
                {"connections", "--seconds=0.2"},
                With(kRules, "direct"),
                "per_second",
                {"first", "middle", "last"}},
        RunCase{"Restart", {"restart"}, {"svcmap"}, "healthy_seconds", {"sigterm", "sigkill"}},
        RunCase{"FullSync", {"restart"}, {"nftables", "iptables-legacy"}, "seconds", {"full-sync"}},
        RunCase{"Repair",
                {"repair"},
                {"svcmap"},
                "outage_seconds",
                {"FlushedRuleset-running", "FlushedRuleset-stopped"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace svcmap::bench
