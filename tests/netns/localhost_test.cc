// Tests of TCP nodePorts on 127.0.0.1 and ::1, which svcmapd forwards itself.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/raw_http.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint16_t kAgentMetricsPort = 10249;
const std::vector<std::string> kLocalhostFlags = {"--localhost-nodeports", "--nodeport-addresses",
                                                  "primary,localhost"};
const Address kLoopbackOfNode = {"127.0.0.1", "::1"};

class LocalhostTest : public ServiceFamilyTest {
 protected:
  std::vector<std::string> AgentFlags() override { return kLocalhostFlags; }

  Request ToLoopback() {
    return {.destination = kLoopbackOfNode.in(v6()),
            .port = kNodePort,
            .timeout = std::chrono::seconds(5)};
  }
  Answer Connect() { return Ask(node().netns(), ToLoopback()); }
  // Waits until a connection has this outcome, because the forwarder applies changes after the Ack.
  void ExpectSoon(const std::string& server) {
    Answer last;
    EXPECT_OK(Eventually(absl::StrCat("answer of ", server), [&] {
      last = Connect();
      return last.outcome == Outcome::kAnswered && last.server == server;
    })) << last.ToString();
  }
  std::string Metrics() {
    const auto page = HttpRequest(node().netns(), "127.0.0.1", kAgentMetricsPort, "/metrics");
    return page.ok() ? page->body : page.status().ToString();
  }
};
INSTANTIATE_FAMILIES(LocalhostTest);

TEST_P(LocalhostTest, S113_LocalAndRemoteEndpoints) {
  for (const Host* pod : {&pod_a(), &remote_pod()}) {
    ASSERT_OK(agent().Replace(Basics() + Objects{ExternalWeb("shop/web", kWeb)} +
                              WebSlices("shop/web", {pod})));
    ExpectSoon(pod->name());
    Request request = ToLoopback();
    request.timeout = kHangLimit;
    ASSERT_OK_AND_ASSIGN(const Answer bulk, BulkTcp(node().netns(), request, size_t{10} << 20));
    EXPECT_EQ(bulk.server, pod->name());
  }
  // The node's address still works without the forwarder.
  EXPECT_EQ(Ask(client().netns(), {.destination = kNode.in(v6()), .port = kNodePort}).server,
            remote_pod().name());
  EXPECT_THAT(Metrics(),
              HasSubstr(absl::StrCat("kubeproxy_nftables_localhost_nodeport_listeners{ip_family=\"",
                                     v6() ? "IPv6" : "IPv4", "\"} 1\n")));
}

using LocalhostOffTest = ServiceTest;

// Without the feature gate, with "all", or with "primary" there is no socket.
TEST_F(LocalhostOffTest, S113_DisabledByDefault) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"--nodeport-addresses", "primary,localhost"},
      {"--localhost-nodeports"},
      {"--localhost-nodeports", "--nodeport-addresses", "all"}};
  for (const std::vector<std::string>& flags : cases) {
    ASSERT_OK(world()->RestartAgent(flags));
    ASSERT_OK(
        agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
    // Without these metrics, svcmapd has no object that could listen.
    const auto page = HttpRequest(node().netns(), "127.0.0.1", kAgentMetricsPort, "/metrics");
    ASSERT_OK(page);
    EXPECT_THAT(page->body, Not(HasSubstr("localhost_nodeport")));
    for (const bool v6 : {false, true}) {
      const Answer answer =
          Ask(node().netns(), {.destination = kLoopbackOfNode.in(v6), .port = kNodePort});
      EXPECT_EQ(answer.outcome, Outcome::kRejected) << answer;
    }
  }
}

}  // namespace
}  // namespace svcmap::testing
