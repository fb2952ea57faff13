// Tests of the compared implementation "nftables-library".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/bench/opponents/library_process.h"
#include "tests/bench/opponents/nftables.h"
#include "tests/support/kernel_check.h"
#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

using ::testing::HasSubstr;
using testing::NetNs;

constexpr char kRunner[] = SVCMAP_BIN_DIR "/svcmap-bench-libnftables";
constexpr std::chrono::seconds kLibraryLimit{20};

TEST(NftablesLibraryTest, LoadsTheSameRulesAsTheProgram) {
  const OpponentSettings settings{.libnftables = kRunner};
  for (const Family family : kFamilies) {
    Cluster cluster({.services = 30, .endpoints = 3, .family = family, .mix = Mix::kEverything});
    ASSERT_OK_AND_ASSIGN(const NetNs one, NetNs::Create());
    ASSERT_OK_AND_ASSIGN(const NetNs other, NetNs::Create());
    ASSERT_OK_AND_ASSIGN(const auto program, MakeOpponent("nftables", one, settings));
    ASSERT_OK_AND_ASSIGN(const auto library, MakeOpponent("nftables-library", other, settings));
    ASSERT_OK(program->Load(cluster));
    ASSERT_OK_AND_ASSIGN(const Cost load, library->Load(cluster));
    EXPECT_GT(load.seconds, 0);
    EXPECT_GT(load.cpu_seconds, 0);
    ASSERT_OK_AND_ASSIGN(const std::string expected, testing::Nft(one, "list ruleset"));
    ASSERT_OK_AND_ASSIGN(const std::string loaded, testing::Nft(other, "list ruleset"));
    EXPECT_THAT(loaded, HasSubstr("kube-proxy"));
    EXPECT_EQ(loaded, expected);

    const ClusterChange change = cluster.ReplaceEndpoint(7);
    ASSERT_OK(library->Change(cluster, {change}));
    ASSERT_OK_AND_ASSIGN(const std::string changed, testing::Nft(other, "list ruleset"));
    for (const BenchEndpoint& endpoint : cluster.ports()[7].endpoints) {
      EXPECT_THAT(changed, HasSubstr(endpoint.address.ip.ToString()));
    }
    EXPECT_GT(library->Memory().rss_kib, 0);
  }
}

TEST(NftablesLibraryTest, ARejectedTransactionIsAnError) {
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  ASSERT_OK_AND_ASSIGN(const auto process, LibraryProcess::Start(kRunner, netns, kLibraryLimit));
  const absl::StatusOr<ToolRun> rejected = process->Run("add rule ip absent mine accept\n");
  EXPECT_THAT(rejected.status().message(), HasSubstr("No such file or directory"));
  ASSERT_OK(process->Run("add table ip mine\n"));
  ASSERT_OK_AND_ASSIGN(const std::string tables, testing::Nft(netns, "list tables"));
  EXPECT_EQ(tables, "table ip mine\n");
}

TEST(NftablesLibraryTest, ATransactionBeyondTheTimeLimitIsAnError) {
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  ASSERT_OK_AND_ASSIGN(const auto process,
                       LibraryProcess::Start(kRunner, netns, std::chrono::seconds(0)));
  // More text than the buffers of the socket can store.
  std::string script;
  for (int i = 0; i < 400000; ++i) script += "add table ip mine\n";
  const absl::StatusOr<ToolRun> late = process->Run(script);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
}

TEST(NftablesLibraryTest, WithoutTheProgramItCannotTakePart) {
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  const auto missing = MakeOpponent("nftables-library", netns, {.libnftables = "/no/such/program"});
  EXPECT_TRUE(absl::IsFailedPrecondition(missing.status())) << missing.status();
}

}  // namespace
}  // namespace svcmap::bench
