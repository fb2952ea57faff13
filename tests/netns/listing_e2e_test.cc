// Administrators list and save rulesets with nft(8). nft must be able to list svcmapd's tables and
// to load its own listing. Most tests use libnftables, which contains the code of nft.
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
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

  // Applies objects with elements in the sets of both flags, and with all kinds of addresses and
  // all protocols.
  void ServeEverything() {
    v1::Object ranged =
        AService("shop/ranged").ClusterIps(ClusterIp(12).v4, ClusterIp(12).v6).Port("range", 1000);
    ranged.mutable_service()->mutable_spec()->mutable_ports(0)->set_end_port(2000);
    ASSERT_OK(agent().Apply(
        Objects{ExternalWeb("shop/web", kWeb), Web("shop/empty", ClusterIp(11)), ranged,
                ASlice("shop/ranged").Endpoint("10.244.1.7").Port("range", kPodPort)} +
        WebSlices("shop/web", {&pod_a(), &remote_pod()})));
  }

  void ExpectListingLoadsAgain() {
    for (const std::string table : {"ip svcmap", "ip6 svcmap"}) {
      SCOPED_TRACE(table);
      ASSERT_OK_AND_ASSIGN(const std::string listing,
                           Nft(node().netns(), absl::StrCat("list table ", table)));
      ASSERT_OK_AND_ASSIGN(const std::string loaded, SortedRulesetOf(listing));
      // The listing of one table does not contain the other table.
      ASSERT_OK_AND_ASSIGN(const std::string ruleset, SortedRuleset(node().netns()));
      EXPECT_NE(ruleset.find(loaded), std::string::npos) << loaded << "\nis not in\n" << ruleset;
    }
    ASSERT_OK_AND_ASSIGN(const std::string listing, Nft(node().netns(), "list ruleset"));
    ASSERT_OK_AND_ASSIGN(const std::string loaded, SortedRulesetOf(listing));
    ASSERT_OK_AND_ASSIGN(const std::string ruleset, SortedRuleset(node().netns()));
    EXPECT_TRUE(loaded == ruleset) << loaded << "\nis not\n" << ruleset;
  }
};

TEST_F(ListingTest, TheListingOfEveryFeatureLoadsAgain) {
  ServeEverything();
  ExpectListingLoadsAgain();
  ASSERT_OK_AND_ASSIGN(const std::string listing, Nft(node().netns(), "list ruleset"));
  EXPECT_NE(listing.find("10.96.0.10 . tcp . 80 comment \"shop/web:tcp\""), std::string::npos)
      << listing;
  EXPECT_NE(listing.find("fd00:96::10 . sctp . 80 comment \"shop/web:sctp\""), std::string::npos);
  EXPECT_NE(listing.find("@th,16,8"), std::string::npos) << "port ranges";
  EXPECT_NE(listing.find("limit rate over"), std::string::npos) << "pings";
}

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
