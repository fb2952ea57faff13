// Tests that endpoint weights determine the share of new connections. Weight 0 drains an endpoint
// without closing connections.
#include <algorithm>

#include "tests/netns/service_world.h"
#include "tests/support/chance.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

constexpr int kDrawn = 1000;
constexpr uint16_t kFlowPort = 5454;  // The source port identifies a UDP flow.

// Returns slices of a Service with these weights in both families.
Objects WeightedSlices(const std::string& service,
                       const std::vector<std::pair<const Host*, uint32_t>>& endpoints) {
  std::vector<const Host*> hosts;
  for (const auto& [host, weight] : endpoints) hosts.push_back(host);
  Objects slices = WebSlices(service, hosts);
  for (v1::Object& slice : slices) {
    for (size_t i = 0; i < endpoints.size(); ++i) {
      slice.mutable_endpoint_slice()
          ->mutable_endpoints(static_cast<int>(i))
          ->set_weight(endpoints[i].second);
    }
  }
  return slices;
}

class WeightsTest : public ServiceFamilyTest {
 protected:
  Request To(const Address& address, Protocol protocol = Protocol::kTcp) {
    return {.protocol = protocol, .destination = address.in(v6()), .port = 80};
  }
  Answer AskFlow(const Host& from) {
    Request request = To(kWeb, Protocol::kUdp);
    request.source_port = kFlowPort;
    return Ask(from.netns(), request);
  }
  void ExpectShare(const Host& from, const Request& request, const std::string& server,
                   double share) {
    const Tally tally = AskMany(from.netns(), request, kDrawn);
    EXPECT_EQ(tally.answered, kDrawn) << tally.ToString();
    const auto count = tally.by_server.find(server);
    ASSERT_NE(count, tally.by_server.end()) << tally.ToString();
    EXPECT_NEAR(count->second, kDrawn * share, ToleranceOfCount(kDrawn, share)) << tally.ToString();
  }
  // Waits for another cleanup pass. The deletion of another Service's flow shows that the cleanup
  // pass has finished.
  void AfterACleanup(const std::function<void()>& change) {
    ASSERT_OK(agent().Apply(Objects{Web("shop/other", ClusterIp(54))} +
                            WebSlices("shop/other", {&pod_a()})));
    Request other = To(ClusterIp(54), Protocol::kUdp);
    other.source_port = kFlowPort;
    ASSERT_EQ(Ask(client().netns(), other).server, "pod-a");
    change();
    ASSERT_OK(agent().Apply(WebSlices("shop/other", {&remote_pod()})));
    ASSERT_OK(Eventually("the other flow to move",
                         [&] { return Ask(client().netns(), other).server == "remote-pod"; }));
  }
};
INSTANTIATE_FAMILIES(WeightsTest);

TEST_P(WeightsTest, S38_NewConnectionsAreSharedByWeight) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} +
                          WeightedSlices("shop/web", {{&pod_a(), 1}, {&remote_pod(), 3}})));
  ExpectShare(pod_b(), To(kWeb, Protocol::kUdp), "remote-pod", 3.0 / 4);
  // New weights without a common divisor use 256 slots, 77 of them for this endpoint.
  ASSERT_OK(agent().Apply(WeightedSlices("shop/web", {{&pod_a(), 701}, {&remote_pod(), 299}})));
  ExpectShare(pod_b(), To(kWeb), "remote-pod", 77.0 / 256);
  // Set equal weights again.
  ASSERT_OK(agent().Apply(WeightedSlices("shop/web", {{&pod_a(), 7}, {&remote_pod(), 7}})));
  ExpectShare(pod_b(), To(kWeb), "remote-pod", 1.0 / 2);
}

// The endpoint of the other slice has the weight 1.
TEST_P(WeightsTest, TheAnnotationOfASliceSetsTheWeightOfItsEndpoints) {
  Objects heavy = WebSlices("shop/web", {&remote_pod()});
  for (v1::Object& slice : heavy) {
    v1::ObjectMeta& metadata = *slice.mutable_endpoint_slice()->mutable_metadata();
    metadata.set_name(metadata.name() + "-heavy");
    (*metadata.mutable_annotations())["svcmap/weight"] = "3";
  }
  ASSERT_OK(
      agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()}) + heavy));
  ExpectShare(pod_b(), To(kWeb, Protocol::kUdp), "remote-pod", 3.0 / 4);
}

TEST_P(WeightsTest, S123_ClientsWithAffinityAreSharedByWeightAndStay) {
  constexpr int kClients = 128;
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb).ClientIpAffinity()} +
                          WeightedSlices("shop/web", {{&pod_a(), 1}, {&remote_pod(), 15}})));
  const auto place = [&] {
    std::vector<std::string> servers;
    for (int i = 0; i < kClients; ++i) {
      Request request = To(kWeb);
      request.source = ClientAddress(i).in(v6());
      servers.push_back(Ask(client().netns(), request).server);
    }
    return servers;
  };
  const std::vector<std::string> servers = place();
  EXPECT_NEAR(std::count(servers.begin(), servers.end(), "remote-pod"), kClients * 15.0 / 16,
              ToleranceOfCount(kClients, 15.0 / 16));
  EXPECT_EQ(place(), servers);
}

TEST_P(WeightsTest, ADrainedEndpointKeepsWhatItHasAndGetsNothingNew) {
  ASSERT_OK(
      agent().Apply(Objects{Web("shop/web", kWeb)} + WeightedSlices("shop/web", {{&pod_a(), 1}})));
  ASSERT_OK_AND_ASSIGN(TcpFlow open, TcpFlow::Open(pod_b().netns(), To(kWeb)));
  ASSERT_EQ(AskFlow(pod_b()).server, "pod-a");
  AfterACleanup([&] {
    ASSERT_OK(agent().Apply(WeightedSlices("shop/web", {{&pod_a(), 0}, {&remote_pod(), 5}})));
  });
  EXPECT_OK(open.Exchange(10'000));
  EXPECT_EQ(AskFlow(pod_b()).server, "pod-a");
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    const Tally tally = AskMany(pod_b().netns(), To(kWeb, protocol), 100);
    EXPECT_EQ(tally.by_server, (std::map<std::string, int>{{"remote-pod", 100}}));
  }
}

}  // namespace
}  // namespace svcmap::testing
