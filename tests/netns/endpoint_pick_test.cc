// Tests of ServiceSpec.endpoint_pick: a hash selects the endpoint of a new connection.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "proxy/desired/slots.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

constexpr int kPickClients = 40;
constexpr int kPickConnections = 20;
constexpr uint16_t kFirstPort = 20000;

class EndpointPickTest : public ServiceFlowTest {
 protected:
  using Hosts = std::vector<const Host*>;

  // Endpoints by client. Each client opens one connection.
  std::vector<std::string> Place() {
    std::vector<std::string> placement;
    Request request = To(kWeb);
    for (int i = 0; i < kPickClients; ++i) {
      request.source = ClientAddress(i).in(v6());
      const Answer answer = Ask(client(), request);
      EXPECT_EQ(answer.outcome, Outcome::kAnswered) << "client " << i << ": " << answer.ToString();
      placement.push_back(answer.server);
    }
    return placement;
  }

  // Returns the endpoints that the hash function and the table predict.
  std::vector<std::string> Predict(const Hosts& hosts, uint32_t slots) const {
    std::map<proxy::EndpointAddress, std::string> names;
    for (const Host* host : hosts) {
      names[{*IpAddress::Parse(host->address(v6())), kPodPort}] = host->name();
    }
    std::vector<proxy::EndpointAddress> endpoints;
    for (const auto& [endpoint, name] : names) endpoints.push_back(endpoint);
    const std::vector<proxy::EndpointAddress> table = proxy::MakeHashTable(endpoints, {}, slots);
    std::vector<std::string> placement;
    for (int i = 0; i < kPickClients; ++i) {
      const IpAddress source = *IpAddress::Parse(ClientAddress(i).in(v6()));
      placement.push_back(names.at(table[proxy::SlotOfClient(source, slots)]));
    }
    return placement;
  }

  Hosts All() { return {&pod_a(), &pod_b(), &remote_pod()}; }
};
INSTANTIATE_FLOWS(EndpointPickTest);

TEST_P(EndpointPickTest, AClientUsesThePredictedEndpoint) {
  for (const uint32_t slots : proxy::kHashTableSizes) {
    ASSERT_OK(agent().Apply(
        Objects{Web("shop/web", kWeb).EndpointPick("ClientIP", static_cast<int>(slots))} +
        WebSlices("shop/web", All())));
    EXPECT_EQ(Place(), Predict(All(), slots)) << slots;
  }
}

TEST_P(EndpointPickTest, EqualPortsPickTheSameEndpointAndOtherPortsOtherEndpoints) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb).EndpointPick("ClientIPAndPort")} +
                          WebSlices("shop/web", All())));
  std::map<uint16_t, std::string> servers;
  std::set<std::string> used;
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(FlushConntrack(node().netns()));
    for (uint16_t i = 0; i < kPickConnections; ++i) {
      Request request = To(kWeb);
      request.source_port = static_cast<uint16_t>(kFirstPort + i);
      const Answer answer = Ask(client(), request);
      ASSERT_EQ(answer.outcome, Outcome::kAnswered) << answer.ToString();
      used.insert(answer.server);
      const auto [known, added] = servers.emplace(request.source_port, answer.server);
      EXPECT_EQ(known->second, answer.server) << request.source_port;
    }
  }
  EXPECT_EQ(used.size(), 3u);
}

// Tests that each endpoint receives the same share of new connections, for any number of endpoints.

constexpr int kMaxEndpoints = 1000;

// One pod simulates thousands of pods, which have addresses in 10.244.64.0/18 and
// fd00:10:244:4::/64.
class UniformityTest : public ServiceFamilyTest {
 protected:
  static void SetUpTestSuite() {
    if (world() == nullptr) return;
    auto pod = world()->topology->AddLocalPod("many");
    ASSERT_OK(pod);
    ASSERT_OK(world()->topology->AddPrefix(**pod, "10.244.64.0/18"));
    ASSERT_OK(world()->topology->AddPrefix(**pod, "fd00:10:244:4::/64"));
    auto server = EchoServer::Start((*pod)->netns());
    ASSERT_OK(server);
    many_ = *std::move(server);
    std::vector<Binding> bindings;
    for (int i = 0; i < kMaxEndpoints; ++i) {
      for (const bool v6 : {false, true}) {
        bindings.push_back({Protocol::kTcp, Ip(i, v6), kPodPort, absl::StrCat(i)});
      }
    }
    ASSERT_OK(many_->Listen(bindings));
  }
  static void TearDownTestSuite() { many_.reset(); }

  static std::string Ip(int i, bool v6) {
    return v6 ? absl::StrCat("fd00:10:244:4::", absl::Hex(i + 1))
              : absl::StrCat("10.244.", 64 + i / 250, ".", i % 250 + 1);
  }
  static Objects Serving(int endpoints) {
    ASlice slice("shop/web");
    slice.Port("tcp", kPodPort);
    for (int i = 0; i < endpoints; ++i) slice.Endpoint(Ip(i, v6()), kAgentNode);
    return {Web("shop/web", kWeb), slice};
  }

  // Opens `count` connections and expects an answer to each connection.
  Tally Draw(int count) {
    Tally tally = AskMany(pod_b().netns(), {.destination = kWeb.in(v6()), .port = 80}, count);
    EXPECT_EQ(tally.answered, count) << tally.first_failure;
    return tally;
  }

  static double ChiSquare(const Tally& tally, int endpoints) {
    const double expected = static_cast<double>(tally.answered) / endpoints;
    double sum = expected * (endpoints - static_cast<int>(tally.by_server.size()));
    for (const auto& [server, count] : tally.by_server) {
      sum += (count - expected) * (count - expected) / expected;
    }
    return sum;
  }

  static std::unique_ptr<EchoServer> many_;
};
std::unique_ptr<EchoServer> UniformityTest::many_;
INSTANTIATE_FAMILIES(UniformityTest);

TEST_P(UniformityTest, S38_EachOfNEndpointsGetsItsShare) {
  for (const int endpoints : {1, 2, 3, 7, 10, 17, 100, 1000}) {
    // 20,000 connections take seconds. The rules of both families pick in the same way.
    if (endpoints == 1000 && v6()) continue;
    SCOPED_TRACE(absl::StrCat(endpoints, " endpoints"));
    ASSERT_OK(agent().Apply(Serving(endpoints)));
    const Tally tally = Draw(std::clamp(20 * endpoints, 600, 20'000));
    if (endpoints == 1) {
      EXPECT_EQ(tally.by_server.size(), 1u);
    } else {
      EXPECT_LT(ChiSquare(tally, endpoints), ChiSquareBound(endpoints - 1)) << tally.ToString();
    }
  }
}

// Tests that endpoint weights determine the share of new connections. Weight 0 drains an endpoint
// without closing connections.

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
