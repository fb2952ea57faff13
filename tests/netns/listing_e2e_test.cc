// Administrators save rulesets with nft(8). tests/contract tests that nft lists svcmapd's tables
// and loads its own listing.
#include "absl/cleanup/cleanup.h"
#include "tests/netns/service_world.h"
#include "tests/support/nft.h"

namespace svcmap::testing {
namespace {

class ListingTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    if (HasFatalFailure()) return;
    // nft cannot load records that a shorter timeout has updated ("timeout 1s expires 59m").
    ASSERT_OK(
        RunNft(node().netns(), "flush map ip svcmap affinity\nflush map ip6 svcmap affinity\n"));
  }
  std::vector<std::string> AgentFlags() override { return {"--answer-ping", "--port-ranges"}; }
};

// An administrator saves, flushes and restores the ruleset. The restored rules translate traffic,
// and the agent finds nothing to repair.
TEST_F(ListingTest, ASavedRulesetCanBeRestoredWhileNoAgentRuns) {
  const Address web = ClusterIp(10);
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", web)} + WebSlices("shop/web", {&pod_a()})));
  ASSERT_OK_AND_ASSIGN(const std::string listing,
                       ListNftProgram("nft", node().netns(), "list ruleset"));
  ASSERT_OK(agent().Kill());
  // The next tests need an agent, even if this test fails.
  const absl::Cleanup restart = [this] {
    world()->agent.reset();
    EXPECT_OK(world()->RestartAgent(AgentFlags()));
  };
  ASSERT_OK(RunNftProgram("nft", node().netns(), "flush ruleset\n"));
  ASSERT_OK(RunNftProgram("nft", node().netns(), listing));
  for (const bool v6 : {false, true}) {
    EXPECT_ANSWERED_BY(Ask(pod_b().netns(), {.destination = web.in(v6), .port = 80}), "pod-a",
                       pod_b().address(v6));
  }
}

}  // namespace
}  // namespace svcmap::testing
