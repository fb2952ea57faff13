// Tests of the clean-up and of the end of the agent.
#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using LifecycleTest = ServiceTest;

// The container of deploy/kubernetes/cleanup stays after the cleanup. It must not prevent the start
// of another svcmapd.
TEST_F(LifecycleTest, CleanupThatStaysLetsAnotherAgentStart) {
  ASSERT_OK(agent().Stop());
  world()->agent.reset();
  ASSERT_OK_AND_ASSIGN(
      const auto cleanup,
      testing::ChildProcess::Start(
          {.argv = {SVCMAP_BIN_DIR "/svcmapd", "--cleanup", "--stay", "--state-dir="},
           .netns = &node().netns()}));
  ASSERT_TRUE(cleanup->WaitForOutput("cleanup complete", kHangLimit));
  ASSERT_OK_AND_ASSIGN(const std::string tables, Nft(node().netns(), "list tables"));
  EXPECT_EQ(tables, "");
  ASSERT_OK(world()->RestartAgent({}));
  ASSERT_OK(cleanup->Signal(SIGTERM));
  const auto exit = cleanup->Wait(kHangLimit);
  ASSERT_TRUE(exit);
  EXPECT_TRUE(exit->ok()) << exit->ToString();
}

// After a large response, a thread of gRPC polls for 10 s. svcmapd must not wait for this thread.
TEST_F(LifecycleTest, SigtermAfterALargeResponseEndsTheAgent) {
  Objects objects = Basics();
  for (int i = 0; i < 10000; ++i) {
    objects.push_back(AService(absl::StrCat("shop/many-", i))
                          .ClusterIp(absl::StrCat("10.96.", 64 + i / 250, ".", 1 + i % 250))
                          .Port("http", 80));
  }
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(agent().Replace(objects));
    ASSERT_OK(agent().Dump(v1::DumpRequest::APPLIED).status());
    const auto start = std::chrono::steady_clock::now();
    ASSERT_OK(agent().Stop());
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    world()->agent.reset();
    ASSERT_OK(world()->RestartAgent({}));
  }
  ASSERT_OK(agent().Replace(Basics()));
}

}  // namespace
}  // namespace svcmap::testing
