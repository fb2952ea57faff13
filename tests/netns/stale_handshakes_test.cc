// Tests of the deletion of TCP and SCTP handshakes without a reply (S-242, S-249). A client retries
// from a constant source port.
#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/nft.h"

namespace svcmap::testing {
namespace {

// A host drops all TCP and SCTP packets that it receives, as if it did not exist.
class Silent {
 public:
  explicit Silent(const Host& host) : host_(host) {
    EXPECT_OK(RunNft(host.netns(),
                     "table inet silent { chain c { type filter hook prerouting priority -400; "
                     "meta l4proto { tcp, sctp } drop; }\n}\n"));
  }
  ~Silent() { EXPECT_OK(RunNft(host_.netns(), "delete table inet silent\n")); }

 private:
  const Host& host_;
};

class StaleHandshakesTest : public ServiceFlowTest {
 protected:
  // The kernel deletes an SCTP handshake after 3 s. With a longer time, only svcmapd can delete it.
  void SetUp() override {
    ServiceFlowTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(SetCookieWait("120"));
  }
  void TearDown() override {
    if (world() == nullptr) return;
    EXPECT_OK(SetCookieWait("3"));
    ServiceFlowTest::TearDown();
  }
  absl::Status SetCookieWait(const std::string& seconds) {
    return node().netns().WriteSysctl("net/netfilter/nf_conntrack_sctp_timeout_cookie_wait",
                                      seconds);
  }
  Answer Retry(const Host& from, const Address& address, uint16_t port = 80) {
    Request request = InVain(address, port);
    request.source_port = 5353;
    return Ask(from, request);
  }
  void ExpectAnswer(const std::string& server, const Host& from, const Address& address,
                    uint16_t port = 80) {
    EXPECT_OK(Eventually(absl::StrCat(server, " answers"),
                         [&] { return Retry(from, address, port).server == server; }));
  }
};
INSTANTIATE_TEST_SUITE_P(, StaleHandshakesTest,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(Protocol::kTcp, Protocol::kSctp)),
                         FlowParamName);

TEST_P(StaleHandshakesTest, S242_S249_RetriesReachTheEndpointThatReplacesADeadOne) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const Silent silent(pod_a());
  const struct {
    const char* name;
    const Host* from;
    Address address;
    uint16_t port = 80;
  } ways[] = {{"clusterIP", &pod_b(), kWeb},
              {"clusterIP from the node", &node(), kWeb},
              {"external IP", &client(), kExternalIp},
              {"load balancer IP", &client(), kLoadBalancerIp},
              {"nodePort", &client(), kNode, kNodePort}};
  for (const auto& way : ways)
    EXPECT_NO_ANSWER(Retry(*way.from, way.address, way.port)) << way.name;
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name);
    ExpectAnswer("remote-pod", *way.from, way.address, way.port);
  }
}

TEST_P(StaleHandshakesTest, S242_RetriesThatWereForwardedBeforeTheServiceExistedReachIt) {
  const Silent silent(outside());
  EXPECT_NO_ANSWER(Retry(client(), kLoadBalancerIp));
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  ExpectAnswer("pod-a", client(), kLoadBalancerIp);
}

// svcmap rejects packets to a cluster IP that have no translation. The response to a SYN is a
// reset, which sets the entry to the state CLOSE. This entry would expire after 10 s.
TEST_P(StaleHandshakesTest, S242_RejectedRetriesReachTheServiceWhenTheirEntryIsDeleted) {
  const Silent silent(outside());
  EXPECT_NO_ANSWER(Retry(client(), kLoadBalancerIp));  // Forwarded to another host.
  const size_t begin = agent().log().size();
  ASSERT_OK(
      agent().Apply(Objects{Web("shop/web", kLoadBalancerIp)} + WebSlices("shop/web", {&pod_a()})));
  ExpectAnswer("pod-a", client(), kLoadBalancerIp);
  // The client can get its answer before the agent has written the line.
  const std::string line = "stale handshakes deleted count=1";
  EXPECT_OK(Eventually(line, [&] { return agent().log().find(line, begin) != std::string::npos; }));
}

// A pod can be slow, or drop a SYN, without leaving the Service.
TEST_P(StaleHandshakesTest, S242_HandshakesWithAnEndpointOfTheServiceAreKept) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb), Web("shop/other", ClusterIp(11))} +
                          WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/other", {&pod_a()})));
  {
    const Silent silent(pod_a());
    EXPECT_NO_ANSWER(Retry(pod_b(), kWeb));
    EXPECT_NO_ANSWER(Retry(pod_b(), ClusterIp(11)));
    // The endpoint leaves one Service and is terminating in the other one.
    ASSERT_OK(agent().Apply(WithFirstTerminating(WebSlices("shop/web", {&pod_a(), &remote_pod()}),
                                                 /*serving=*/false) +
                            WebSlices("shop/other", {&remote_pod()})));
    EXPECT_OK(Eventually("remote-pod answers", [&] {
      EXPECT_NO_ANSWER(Retry(pod_b(), kWeb));  // Keeps the entry.
      return Retry(pod_b(), ClusterIp(11)).server == "remote-pod";
    }));
  }
  // The same entry still leads to the pod, which replies now.
  ExpectAnswer("pod-a", pod_b(), kWeb);
}

}  // namespace
}  // namespace svcmap::testing
