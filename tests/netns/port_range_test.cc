// Tests of port ranges (ServicePort.end_port). Each port of a range leads to the same port of an
// endpoint.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"

namespace svcmap::testing {
namespace {

// Ports of the range 1000 to 2000: its bounds, and the bounds of its blocks of 256 ports.
constexpr uint16_t kInside[] = {1000, 1023, 1024, 1279, 1280, 1791, 1792, 2000};
constexpr uint16_t kOutside[] = {999, 2001, 80};
constexpr uint16_t kSinglePort = 1500;
constexpr uint16_t kRangeSourcePort = 5353;

class PortRangeTest : public ServiceFlowTest {
 protected:
  void SetUp() override {
    ServiceFlowTest::SetUp();
    if (HasFatalFailure()) return;
    for (const Host* pod : {&pod_a(), &pod_b(), &remote_pod()}) {
      ASSERT_OK_AND_ASSIGN(auto server, EchoServer::Start(pod->netns()));
      std::vector<Binding> bindings;
      for (const uint16_t port : Served()) {
        bindings.push_back(
            {protocol(), pod->address(v6()), port, absl::StrCat(pod->name(), "/", port)});
      }
      ASSERT_OK(server->Listen(bindings));
      servers_.push_back(std::move(server));
    }
  }
  std::vector<std::string> AgentFlags() override { return {"--port-ranges"}; }

  static std::set<uint16_t> Served() {
    std::set<uint16_t> ports(std::begin(kInside), std::end(kInside));
    ports.insert({kSinglePort, 256});
    return ports;
  }

  // A Service with the range, at `cluster_ip` and kExternalIp.
  v1::Object Ranged(int first = 1000, int last = 2000, const Address& cluster_ip = kWeb,
                    const std::string& policy = "") {
    AService service("shop/ranged");
    service.ClusterIps(cluster_ip.v4, cluster_ip.v6)
        .Port("range", first, protocol())
        .ExternalIp(kExternalIp.v4)
        .ExternalIp(kExternalIp.v6);
    if (!policy.empty()) service.ExternalPolicy(policy).InternalPolicy(policy);
    v1::Object object = service;
    object.mutable_service()->mutable_spec()->mutable_ports(0)->set_end_port(last);
    return object;
  }
  Objects Slices(const std::string& service, const std::string& port_name, int port,
                 const std::vector<const Host*>& hosts) {
    return SlicesOf(service, hosts, {{port_name, port, protocol()}});
  }
  Objects RangedSlices(const std::vector<const Host*>& hosts) {
    return Slices("shop/ranged", "range", 7777, hosts);
  }
  Answer Try(const Host& from, const Address& address, uint16_t port) {
    return svcmap::testing::Ask(from.netns(), To(address, port));
  }
  std::string ServerAt(const Host& from, const Address& address, uint16_t port) {
    return Try(from, address, port).server;
  }
  // The endpoints of the clients. Element N is the endpoint of the client ClientAddress(N).
  using Placement = std::vector<std::string>;

  static v1::Object Sticky(v1::Object service, int seconds = 0) {
    v1::ServiceSpec& spec = *service.mutable_service()->mutable_spec();
    spec.set_session_affinity("ClientIP");
    if (seconds != 0) {
      spec.mutable_session_affinity_config()->mutable_client_ip()->set_timeout_seconds(seconds);
    }
    return service;
  }
  // Returns the name of the endpoint's host.
  std::string ServerOf(const Address& source, const Address& address, uint16_t port) {
    Request request = To(address, port);
    request.source = source.in(v6());
    const Answer answer = Ask(client(), request);
    EXPECT_EQ(answer.outcome, Outcome::kAnswered) << answer.ToString();
    return answer.server.substr(0, answer.server.find('/'));
  }
  // Opens connections from several clients to several ports of the range 1000 to 2000. Expects that
  // each client uses one endpoint. All endpoints of a Service with up to three endpoints are used,
  // except with a probability of at most kFalseFailure.
  Placement Place(const Address& address = kExternalIp) {
    Placement placement;
    for (int i = 0; i < TriesToReachAll(3); ++i) {
      std::set<std::string> servers;
      for (const uint16_t port : {kInside[0], kInside[2], kInside[7]}) {
        servers.insert(ServerOf(ClientAddress(i), address, port));
      }
      EXPECT_EQ(servers.size(), 1u) << "client " << i;
      placement.push_back(*servers.begin());
    }
    return placement;
  }
  static std::set<std::string> Used(const Placement& placement) {
    return {placement.begin(), placement.end()};
  }
  void ExpectRejected(const Host& from, const Address& address, uint16_t port) {
    EXPECT_REJECTED(Try(from, address, port)) << port;
  }

  std::vector<std::unique_ptr<EchoServer>> servers_;
};
INSTANTIATE_FLOWS(PortRangeTest);

TEST_P(PortRangeTest, TheAnnotationEndPortsMakesARange) {
  AService service("shop/ranged");
  service.ClusterIps(kWeb.v4, kWeb.v6)
      .Port("range", 1000, protocol())
      .Annotation("svcmap/end-ports", "missing=80,range=2000");
  ASSERT_OK_AND_ASSIGN(const v1::Ack ack,
                       agent().TryApply(Objects{service} + RangedSlices({&pod_a()})));
  ASSERT_EQ(ack.results_size(), 1) << ack.DebugString();
  EXPECT_EQ(ack.results(0).field(), "metadata.annotations[\"svcmap/end-ports\"]");
  for (const uint16_t port : kInside) {
    EXPECT_EQ(ServerAt(client(), kWeb, port), absl::StrCat("pod-a/", port));
  }
  for (const uint16_t port : kOutside) ExpectRejected(client(), kWeb, port);
}

TEST_P(PortRangeTest, OnlyClientsOfARemovedEndpointGetAnotherOne) {
  const Objects service = {Sticky(Ranged())};
  ASSERT_OK(agent().Apply(service + RangedSlices({&pod_a(), &pod_b(), &remote_pod()})));
  const Placement before = Place();
  ASSERT_OK(agent().Apply(RangedSlices({&pod_b(), &remote_pod()})));
  const Placement without = Place();
  EXPECT_EQ(Used(without), (std::set<std::string>{"pod-b", "remote-pod"}));
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] != "pod-a") {
      EXPECT_EQ(without[i], before[i]) << "client " << i;
    }
  }
  ASSERT_OK(agent().Apply(RangedSlices({&pod_a(), &pod_b(), &remote_pod()})));
  EXPECT_EQ(Place(), without);
  // A restart without saved state reads the numbers of the records from the kernel.
  ASSERT_OK(world()->RestartAgent(
      {"--port-ranges"}, Basics() + service + RangedSlices({&pod_a(), &pod_b(), &remote_pod()})));
  EXPECT_EQ(Place(), without);
}

// The rules for ranges without endpoints see the address of the endpoint, which is an address of
// the range.
TEST_P(PortRangeTest, ARangeWithoutEndpointsDoesNotRejectConnectionsOfOtherServices) {
  ASSERT_OK_AND_ASSIGN(const auto server, EchoServer::Start(node().netns()));
  ASSERT_OK(server->Listen({protocol(), kNode.in(v6()), kSinglePort, "node-process"}));
  AService ranged("shop/ranged");
  ranged.ClusterIps(kWeb.v4, kWeb.v6)
      .Port("range", 1000, protocol())
      .ExternalIp(kNode.v4)
      .ExternalIp(kNode.v6);
  v1::Object object = ranged;
  object.mutable_service()->mutable_spec()->mutable_ports(0)->set_end_port(2000);
  ASSERT_OK(agent().Apply(
      Objects{object, Web("shop/other", ClusterIp(11))} +
      SlicesOf("shop/other", {&node()},
               {{absl::AsciiStrToLower(ProtocolName(protocol())), kSinglePort, protocol()}})));
  for (const Host* from : {&pod_b(), &client(), &node()}) {
    EXPECT_EQ(ServerAt(*from, ClusterIp(11), 80), "node-process") << from->name();
    ExpectRejected(*from, kNode, kSinglePort);
  }
}

class UdpPortRangeTest : public PortRangeTest {
 protected:
  // All requests of a test to a port have the same source port.
  Answer AskFlow(uint16_t port) {
    Request request = To(kWeb, port);
    request.source_port = kRangeSourcePort;
    request.timeout = kShort;
    return svcmap::testing::Ask(client().netns(), request);
  }
  absl::Status AwaitServer(const std::string& server, uint16_t port) {
    return Eventually(server,
                      [&] { return AskFlow(port).server == absl::StrCat(server, "/", port); });
  }
};
INSTANTIATE_TEST_SUITE_P(Families, UdpPortRangeTest,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(Protocol::kUdp)),
                         [](const auto& info) {
                           return std::get<0>(info.param) ? "IPv6" : "IPv4";
                         });

// As with a removed port, a flow stays while its endpoint serves.
TEST_P(UdpPortRangeTest, FlowsOutsideANarrowerRangeEndWithTheirEndpoint) {
  ASSERT_OK(agent().Apply(Objects{Ranged()} + RangedSlices({&pod_b()})));
  for (const uint16_t port : {1000, 1280}) EXPECT_OK(AwaitServer("pod-b", port));
  ASSERT_OK(agent().Apply({Ranged(1000, 1100)}));
  ASSERT_OK(agent().Apply(RangedSlices({&pod_a()})));
  EXPECT_OK(AwaitServer("pod-a", 1000));
  EXPECT_OK(Eventually("a reject", [&] { return AskFlow(1280).outcome == Outcome::kRejected; }));
}

TEST_P(UdpPortRangeTest, FlowsOfASinglePortInsideARangeStay) {
  AService single("shop/single");
  single.ClusterIps(kWeb.v4, kWeb.v6).Port("one", kSinglePort, Protocol::kUdp);
  // Both Services have the same address.
  ASSERT_OK(agent().Apply(Objects{Ranged(), single} + RangedSlices({&pod_a()}) +
                          Slices("shop/single", "one", kSinglePort, {&pod_b()})));
  EXPECT_OK(AwaitServer("pod-b", kSinglePort));
  EXPECT_OK(AwaitServer("pod-a", 1000));
  ASSERT_OK(agent().Apply(RangedSlices({&remote_pod()})));
  EXPECT_OK(AwaitServer("remote-pod", 1000));
  EXPECT_OK(AwaitServer("pod-b", kSinglePort));
}

// One counter for all ports of the range. Connections to a single port inside the range, and
// connections that the source ranges drop, are not counted.
TEST_P(PortRangeTest, ConnectionsAreCountedForEachAddress) {
  ASSERT_OK(world()->RestartAgent({"--port-ranges", "--service-counters"}));
  AService single("shop/single");
  single.ClusterIps(ClusterIp(11).v4, ClusterIp(11).v6)
      .Port("one", kSinglePort, protocol())
      .ExternalIp(kExternalIp.v4)
      .ExternalIp(kExternalIp.v6);
  v1::Object ranged = Sticky(Ranged());
  const Address vip = kLoadBalancerIp;
  ranged.mutable_service()->mutable_status()->mutable_load_balancer()->add_ingress()->set_ip(
      vip.in(v6()));
  ranged.mutable_service()->mutable_spec()->add_load_balancer_source_ranges(
      absl::StrCat(pod_b().address(v6()), v6() ? "/128" : "/32"));
  ASSERT_OK(agent().Apply(Objects{ranged, single} + RangedSlices({&pod_a()}) +
                          Slices("shop/single", "one", kSinglePort, {&pod_b()})));
  for (const uint16_t port : kInside) {
    EXPECT_EQ(ServerAt(client(), kExternalIp, port), absl::StrCat("pod-a/", port));
  }
  EXPECT_EQ(ServerAt(client(), kExternalIp, kSinglePort), absl::StrCat("pod-b/", kSinglePort));
  EXPECT_EQ(ServerAt(pod_b(), vip, 1000), "pod-a/1000");
  Request dropped = To(vip, 1000);
  dropped.timeout = kShort;
  EXPECT_EQ(svcmap::testing::Ask(client().netns(), dropped).outcome, Outcome::kTimedOut);
  const auto count = [&](const Address& address) {
    const Samples samples = ReadMetrics(node().netns());
    const auto found = samples.find(absl::StrCat(
        "svcmap_service_connections_total{namespace=\"shop\",name=\"ranged\",port=\"ranges\","
        "protocol=\"",
        absl::AsciiStrToUpper(ProtocolName(protocol())), "\",destination=\"", address.in(v6()),
        "\"}"));
    return found == samples.end() ? -1 : static_cast<int>(found->second);
  };
  EXPECT_OK(Eventually("counts",
                       [&] {
                         return count(kExternalIp) == static_cast<int>(std::size(kInside)) &&
                                count(vip) == 1;
                       }))
      << count(kExternalIp) << " " << count(vip);
  EXPECT_EQ(count(kWeb), 0);
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

}  // namespace
}  // namespace svcmap::testing
