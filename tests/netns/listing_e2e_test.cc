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

  // Applies objects that use every feature of both tables. The Services have all kinds of addresses
  // and all protocols. The Services have no, few, many, local, remote or terminating endpoints.
  void ServeEverything() {
    const std::string key = "shop/web";
    const std::string port = "http-";
    const auto external = [](AService service, int number) {
      return service.ExternalIp(absl::StrCat("198.51.100.", number))
          .ExternalIp(absl::StrCat("2001:db8:51::", number))
          .LoadBalancerIp(absl::StrCat("198.51.101.", number))
          .LoadBalancerIp(absl::StrCat("2001:db8:52::", number));
    };
    const auto with_ports = [&](const std::string& service_key, int number) {
      AService service(service_key);
      service.ClusterIps(ClusterIp(number).v4, ClusterIp(number).v6);
      for (const Protocol protocol : kProtocols) {
        service.Port(absl::StrCat(port, ProtocolName(protocol)), 80, protocol)
            .NodePort(30000 + number);
      }
      return external(service, number);
    };
    v1::Object ranged =
        AService(key + "4").ClusterIps(ClusterIp(13).v4, ClusterIp(13).v6).Port(port + "r", 1000);
    ranged.mutable_service()->mutable_spec()->mutable_ports(0)->set_end_port(2000);
    Objects objects = {with_ports(key, 10), with_ports(key + "2", 11), with_ports(key + "3", 12),
                       ranged, ASlice(key + "4").Endpoint("10.244.1.7").Port(port + "r", kPodPort)};
    for (const bool v6 : {false, true}) {
      for (const int endpoints : {3, 100}) {
        ASlice slice(endpoints == 3 ? key : key + "2");
        slice.Named(absl::StrCat("slice-", v6 ? "v6" : "v4", "-", endpoints));
        for (int i = 1; i <= endpoints; ++i) {
          slice.Endpoint(absl::StrCat(v6 ? "fd00:10:244:1::" : "10.244.1.", i),
                         i % 2 ? kAgentNode : "n2");
        }
        for (const Protocol protocol : kProtocols) {
          slice.Port(absl::StrCat(port, ProtocolName(protocol)), kPodPort, protocol);
        }
        objects.push_back(slice);
      }
    }
    ASSERT_OK(agent().Apply(objects));
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
  EXPECT_NE(listing.find("10.96.0.10 . tcp . 80 comment \"shop/web:http-tcp\""), std::string::npos)
      << listing;
  EXPECT_NE(listing.find("fd00:96::10 . sctp . 80 comment \"shop/web:http-sctp\""),
            std::string::npos);
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
