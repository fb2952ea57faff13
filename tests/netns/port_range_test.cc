// Tests of port ranges (ServicePort.end_port). Each port of a range leads to the same port of an
// endpoint.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"
#include "tests/support/nft.h"

namespace svcmap::testing {
namespace {

// Ports of the range 1000 to 2000: its bounds, and the bounds of its blocks of 256 ports.
constexpr uint16_t kInside[] = {1000, 1023, 1024, 1279, 1280, 1791, 1792, 2000};
constexpr uint16_t kOutside[] = {999, 2001, 80};
constexpr uint16_t kSinglePort = 1500;
constexpr uint16_t kSourcePort = 5353;

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
    ports.insert({kSinglePort, 1, 255, 256, 65535});
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

TEST_P(PortRangeTest, EachPortLeadsToTheSamePortOfAnEndpoint) {
  ASSERT_OK(agent().Apply(Objects{Ranged()} + RangedSlices({&pod_a()})));
  for (const Host* from : {&pod_b(), &remote_pod(), &client(), &node()}) {
    for (const Address& address : {kWeb, kExternalIp}) {
      for (const uint16_t port : kInside) {
        EXPECT_EQ(ServerAt(*from, address, port), absl::StrCat("pod-a/", port)) << from->name();
      }
    }
    for (const uint16_t port : kOutside) ExpectRejected(*from, kWeb, port);
  }
}

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

TEST_P(PortRangeTest, AClientKeepsItsEndpointWithPicksByHash) {
  const Objects slices = RangedSlices({&pod_a(), &pod_b(), &remote_pod()});
  v1::Object by_client = Ranged();
  by_client.mutable_service()->mutable_spec()->set_endpoint_pick("ClientIP");
  ASSERT_OK(agent().Apply(Objects{by_client} + slices));
  EXPECT_GT(Used(Place()).size(), 1u);
}

TEST_P(PortRangeTest, AffinityAppliesToAllPortsOfTheRange) {
  // Records of earlier tests, whose agents used the same numbers, would select the endpoints.
  ASSERT_OK(
      RunNft(node().netns(), "flush map ip svcmap affinity\nflush map ip6 svcmap affinity\n"));
  for (const char* policy : {"", "Local"}) {
    SCOPED_TRACE(policy);
    const bool local = *policy != '\0';
    const std::vector<const Host*> hosts = {&pod_a(), &pod_b(), local ? &pod_a() : &remote_pod()};
    ASSERT_OK(
        agent().Apply(Objects{Sticky(Ranged(1000, 2000, kWeb, policy))} + RangedSlices(hosts)));
    const Placement before = Place();
    EXPECT_EQ(Used(before).size(), local ? 2u : 3u);
    EXPECT_EQ(Place(), before);
    EXPECT_EQ(Place(kWeb), before) << "records apply to all addresses of a port";
    ExpectAppliedIsInTheKernel(agent(), node().netns());
  }
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

TEST_P(PortRangeTest, AffinityStartsAndEndsWithTheService) {
  ASSERT_OK(agent().Apply(Objects{Ranged()} + RangedSlices({&pod_a(), &pod_b()})));
  ASSERT_OK(agent().Apply({Sticky(Ranged(), 90)}));
  const Placement before = Place();
  EXPECT_EQ(Place(), before);
  // A single port with the same name has records of its own.
  ASSERT_OK(agent().Apply(Objects{Sticky(Ranged(1000, 0))} +
                          Slices("shop/ranged", "range", 1000, {&pod_a(), &pod_b()})));
  ASSERT_OK(FlushConntrack(node().netns()));
  EXPECT_EQ(ServerOf(ClientAddress(0), kWeb, 1000), ServerOf(ClientAddress(0), kWeb, 1000));
  ExpectRejected(client(), kWeb, 1024);
  ASSERT_OK(agent().Apply({Ranged()}));
  const Tally tally = AskMany(client().netns(), To(kWeb, 1024), TriesToReachAll(2));
  EXPECT_EQ(tally.by_server.size(), 2u) << tally.ToString();
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

TEST_P(PortRangeTest, TheWholeAddress) {
  ASSERT_OK(agent().Apply(Objects{Ranged(1, 65535)} + RangedSlices({&pod_a()})));
  for (const uint16_t port : Served()) {
    EXPECT_EQ(ServerAt(client(), kExternalIp, port), absl::StrCat("pod-a/", port));
    EXPECT_EQ(ServerAt(node(), kWeb, port), absl::StrCat("pod-a/", port));
  }
}

TEST_P(PortRangeTest, ASinglePortTakesPrecedence) {
  AService single("shop/single");
  single.ClusterIps(ClusterIp(11).v4, ClusterIp(11).v6)
      .Port("one", kSinglePort, protocol())
      .ExternalIp(kExternalIp.v4)
      .ExternalIp(kExternalIp.v6);
  ASSERT_OK(agent().Apply(Objects{Ranged(), single} + RangedSlices({&pod_a()}) +
                          Slices("shop/single", "one", kSinglePort, {&pod_b()})));
  EXPECT_EQ(ServerAt(client(), kExternalIp, kSinglePort), absl::StrCat("pod-b/", kSinglePort));
  EXPECT_EQ(ServerAt(client(), kWeb, kSinglePort), absl::StrCat("pod-a/", kSinglePort));
  EXPECT_EQ(ServerAt(client(), kExternalIp, 1000), "pod-a/1000");
  // The range does not receive the connections to a single port without endpoints.
  ASSERT_OK(agent().Apply(Slices("shop/single", "one", kSinglePort, {})));
  ExpectRejected(client(), kExternalIp, kSinglePort);
  EXPECT_EQ(ServerAt(client(), kExternalIp, 1000), "pod-a/1000");
}

TEST_P(PortRangeTest, WithoutEndpointsTheRangeIsRejected) {
  ASSERT_OK(agent().Apply({Ranged()}));
  for (const Address& address : {kWeb, kExternalIp}) {
    for (const Host* from : {&pod_b(), &client()}) {
      for (const uint16_t port : kInside) ExpectRejected(*from, address, port);
    }
  }
  ASSERT_OK(agent().Apply(RangedSlices({&pod_b()})));
  for (const uint16_t port : kInside) {
    EXPECT_EQ(ServerAt(client(), kExternalIp, port), absl::StrCat("pod-b/", port));
  }
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

// kSinglePort belongs to a Service without source ranges.
TEST_P(PortRangeTest, SourceRanges) {
  const Address vip = kLoadBalancerIp;
  AService ranged("shop/ranged");
  ranged.ClusterIps(kWeb.v4, kWeb.v6).Port("range", 1000, protocol());
  AService single("shop/single");
  single.ClusterIps(ClusterIp(11).v4, ClusterIp(11).v6).Port("one", kSinglePort, protocol());
  for (AService* service : {&ranged, &single}) {
    service->LoadBalancerIp(vip.v4).LoadBalancerIp(vip.v6);
  }
  ranged.SourceRange(absl::StrCat(pod_b().v4(), "/32"))
      .SourceRange(absl::StrCat(pod_b().v6(), "/128"));
  v1::Object object = ranged;
  object.mutable_service()->mutable_spec()->mutable_ports(0)->set_end_port(2000);
  ASSERT_OK(agent().Apply(Objects{object, single} + RangedSlices({&pod_a()}) +
                          Slices("shop/single", "one", kSinglePort, {&pod_b()})));
  const auto expect_dropped = [&] {
    for (const auto& [from, port] : {std::pair(&client(), kInside[0]), {&node(), kInside[2]}}) {
      Request request = To(vip, port);
      request.timeout = kShort;
      const Answer answer = svcmap::testing::Ask(from->netns(), request);
      EXPECT_EQ(answer.outcome, Outcome::kTimedOut) << from->name() << " " << answer.ToString();
    }
  };
  for (const uint16_t port : kInside) {
    EXPECT_EQ(ServerAt(pod_b(), vip, port), absl::StrCat("pod-a/", port));
  }
  expect_dropped();
  EXPECT_EQ(ServerAt(client(), kWeb, 1000), "pod-a/1000") << "not at the clusterIP";
  EXPECT_EQ(ServerAt(client(), vip, kSinglePort), absl::StrCat("pod-b/", kSinglePort));
  ExpectAppliedIsInTheKernel(agent(), node().netns());

  // Without endpoints, only the allowed sources are rejected.
  ASSERT_OK(agent().Apply(RangedSlices({})));
  for (const uint16_t port : {kInside[0], kInside[2]}) ExpectRejected(pod_b(), vip, port);
  expect_dropped();
}

TEST_P(PortRangeTest, TrafficPolicyLocal) {
  ASSERT_OK(agent().Apply(Objects{Ranged(1000, 2000, kWeb, "Local")} +
                          RangedSlices({&pod_a(), &remote_pod()})));
  for (int i = 0; i < 8; ++i) {
    const Answer answer = Try(client(), kExternalIp, kInside[i]);
    EXPECT_EQ(answer.server, absl::StrCat("pod-a/", kInside[i]));
    EXPECT_EQ(answer.seen_ip, client().address(v6()));
    EXPECT_EQ(ServerAt(pod_b(), kWeb, kInside[i]), absl::StrCat("pod-a/", kInside[i]));
  }
  ASSERT_OK(agent().Apply(RangedSlices({&remote_pod()})));
  Request request = To(kExternalIp, 1000);
  request.timeout = kShort;
  EXPECT_EQ(svcmap::testing::Ask(client().netns(), request).outcome, Outcome::kTimedOut);
  EXPECT_EQ(ServerAt(pod_b(), kExternalIp, 1024), "remote-pod/1024") << "pods use all endpoints";
}

TEST_P(PortRangeTest, AnEndpointReachesItself) {
  ASSERT_OK(agent().Apply(Objects{Ranged()} + RangedSlices({&pod_a()})));
  for (const uint16_t port : kInside) {
    const Answer answer = Try(pod_a(), kWeb, port);
    EXPECT_EQ(answer.server, absl::StrCat("pod-a/", port));
    EXPECT_NE(answer.seen_ip, pod_a().address(v6())) << "masqueraded";
  }
}

TEST_P(PortRangeTest, ChangesOfTheRangeTakeEffect) {
  ASSERT_OK(agent().Apply(Objects{Ranged()} + RangedSlices({&pod_a()})));
  ASSERT_OK(agent().Apply({Ranged(1024, 1279)}));
  ASSERT_OK(FlushConntrack(node().netns()));
  EXPECT_EQ(ServerAt(client(), kWeb, 1024), "pod-a/1024");
  EXPECT_EQ(ServerAt(client(), kWeb, 1279), "pod-a/1279");
  for (const uint16_t port : {1023, 1280}) ExpectRejected(client(), kWeb, port);
  // A single port with the same name.
  ASSERT_OK(agent().Apply({Ranged(1024, 0)}));
  ASSERT_OK(agent().Apply(Slices("shop/ranged", "range", 256, {&pod_a()})));
  ASSERT_OK(FlushConntrack(node().netns()));
  EXPECT_EQ(ServerAt(client(), kWeb, 1024), "pod-a/256");
  ExpectRejected(client(), kWeb, 1279);
  ASSERT_OK(agent().Apply({Ranged()}));
  ASSERT_OK(FlushConntrack(node().netns()));
  EXPECT_EQ(ServerAt(client(), kWeb, 1024), "pod-a/1024");
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

class UdpPortRangeTest : public PortRangeTest {
 protected:
  // All requests of a test to a port have the same source port.
  Answer AskFlow(uint16_t port) {
    Request request = To(kWeb, port);
    request.source_port = kSourcePort;
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

TEST_P(PortRangeTest, WithoutTheFlagTheRangeIsNotProgrammed) {
  ASSERT_OK(world()->RestartAgent({}));
  ASSERT_OK(agent().Apply({Web("shop/web", ClusterIp(12))}));
  ASSERT_OK_AND_ASSIGN(const v1::Ack ack,
                       agent().TryApply(Objects{Ranged()} + RangedSlices({&pod_a()})));
  ASSERT_EQ(ack.results_size(), 1) << "one for both families";
  EXPECT_EQ(ack.results(0).severity(), v1::WARNING);
  EXPECT_NE(ack.results(0).message().find("--port-ranges"), std::string::npos)
      << ack.results(0).message();
  for (const uint16_t port : kInside) ExpectRejected(pod_b(), kWeb, port);
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
