#include "tests/bench/record/samples.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

TEST(SamplesTest, TheFileOfOneRunGrows) {
  ASSERT_OK_AND_ASSIGN(const auto folder, testing::TemporaryFolder::Make());
  const std::string path = folder.path() + "/samples.csv";
  for (const int round : {1, 2}) {
    ASSERT_OK_AND_ASSIGN(const auto samples, Samples::Open(path));
    samples->Add({"sync", "10x1", "svcmap", "load", "seconds", round, 0.25});
  }
  ASSERT_OK_AND_ASSIGN(const auto samples, Samples::Open(path));
  samples->AddOverLimit({"sync", "10x1", "slow", "load", "", 1}, 120);
  samples->AddFailed({"sync", "10x1", "broken", "load", "", 1}, absl::InternalError("why"));

  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
            "workload,shape,opponent,what,metric,round,value\n"
            "sync,10x1,svcmap,load,seconds,1,0.25\n"
            "sync,10x1,svcmap,load,seconds,2,0.25\n"
            "sync,10x1,slow,load,over-limit,1,120\n"
            "sync,10x1,broken,load,failed,1,1\n");
}

TEST(SamplesTest, WithoutAPathNothingIsWritten) {
  ASSERT_OK_AND_ASSIGN(const auto samples, Samples::Open(""));
  samples->Add({"sync", "10x1", "svcmap", "load", "seconds", 1, 1});
}

TEST(SamplesTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_EQ(Samples::Open("/nowhere/samples.csv").status().message(),
            "open /nowhere/samples.csv for samples: No such file or directory (ENOENT)");
}

}  // namespace
}  // namespace svcmap::bench
