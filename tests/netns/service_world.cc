#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/netns/service_world.h"
#include "tests/support/raw_http.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

namespace {

absl::StatusOr<std::unique_ptr<World>>& WorldSlot() {
  static absl::StatusOr<std::unique_ptr<World>> slot = absl::NotFoundError("not made yet");
  return slot;
}

// Destroys the world before the static objects that the world uses.
class WorldEnvironment : public ::testing::Environment {
 public:
  void TearDown() override { WorldSlot() = absl::NotFoundError("already gone"); }
};
[[maybe_unused]] auto* const kWorldEnvironment =
    ::testing::AddGlobalTestEnvironment(new WorldEnvironment);

// Assigns Service addresses to `host`, so that `host` receives untranslated packets.
absl::StatusOr<std::unique_ptr<EchoServer>> MakeOutside(Topology& net, const Host& host) {
  std::vector<Binding> bindings;
  for (const Address& address : {kExternalIp, kLoadBalancerIp, kUnallocated}) {
    for (const bool v6 : {false, true}) {
      const std::string& ip = address.in(v6);
      if (absl::Status status = net.AddPrefix(host, absl::StrCat(ip, v6 ? "/128" : "/32"));
          !status.ok()) {
        return status;
      }
      for (const Protocol protocol : kProtocols) {
        for (const uint16_t port : {80, 81}) bindings.push_back({protocol, ip, port, host.name()});
      }
    }
  }
  absl::StatusOr<std::unique_ptr<EchoServer>> server = EchoServer::Start(host.netns());
  if (!server.ok()) return server;
  if (absl::Status status = (*server)->Listen(bindings); !status.ok()) return status;
  return server;
}

// Routes packets from the remote `pod` through the node, including packets to the host "outside".
// Replies from the pod take the same path.
absl::Status RouteByTheNode(const Topology& net, const Host& pod) {
  for (const bool v6 : {false, true}) {
    const std::string batch =
        absl::StrCat("rule add iif ", pod.device(), " lookup 100\n", "route replace default via ",
                     v6 ? kNodeV6 : kNodeV4, " dev eth0 table 100\n");
    if (absl::Status status = RunOk({.argv = {"ip", v6 ? "-6" : "-4", "-batch", "-"},
                                     .netns = &net.remote().netns(),
                                     .stdin_text = batch})
                                  .status();
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

Samples ReadMetrics(const NetNs& netns) {
  const absl::StatusOr<HttpAnswer> page = HttpRequest(netns, "127.0.0.1", 10249, "/metrics");
  Samples samples;
  std::istringstream lines(page.ok() && page->code == 200 ? page->body : "");
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.rfind(' ');
    if (!line.starts_with('#')) samples[line.substr(0, blank)] = std::stod(line.substr(blank + 1));
  }
  return samples;
}

Address ClusterIp(int n) { return {absl::StrCat("10.96.0.", n), absl::StrCat("fd00:96::", n)}; }

Address ClientAddress(int n) {
  return {absl::StrCat("203.0.113.", 128 + n),
          absl::StrCat("2001:db8:203::1", absl::Hex(n, absl::kZeroPad2))};
}

absl::StatusOr<std::unique_ptr<World>> World::Create() {
  if (absl::Status status = NetNsAvailable(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<Topology>> topology = Topology::Create();
  if (!topology.ok()) return topology.status();
  auto world = std::make_unique<World>();
  world->topology = *std::move(topology);
  Topology& net = *world->topology;
  for (auto [host, made] : {std::pair(&world->pod_a, net.AddLocalPod("pod-a")),
                            std::pair(&world->pod_b, net.AddLocalPod("pod-b")),
                            std::pair(&world->remote_pod, net.AddRemotePod("remote-pod")),
                            std::pair(&world->client, net.AddClient("client")),
                            std::pair(&world->outside, net.AddRemotePod("outside"))}) {
    if (!made.ok()) return made.status();
    *host = *made;
  }
  for (const char* prefix : {"203.0.113.128/25", "2001:db8:203::100/120"}) {
    if (absl::Status status = net.AddPrefix(*world->client, prefix); !status.ok()) return status;
  }
  world->cast = {
      {"L1", world->pod_a}, {"L2", world->pod_b}, {"R1", world->remote_pod}, {"X", world->client}};
  for (const auto& [name, made] :
       {std::pair("L3", net.AddLocalPod("L3")), std::pair("L4", net.AddLocalPod("L4")),
        std::pair("P", net.AddLocalPod("P")), std::pair("R2", net.AddRemotePod("R2")),
        std::pair("Q", net.AddRemotePod("Q"))}) {
    if (!made.ok()) return made.status();
    world->cast[name] = *made;
  }
  for (const char* letters : {"R1", "R2", "Q"}) {
    if (absl::Status status = RouteByTheNode(net, *world->cast[letters]); !status.ok()) {
      return status;
    }
  }
  for (const auto& [letters, pod] : world->cast) {
    if (pod == world->client) continue;
    absl::StatusOr<std::unique_ptr<EchoServer>> server =
        EchoServer::StartAll(pod->netns(), pod->v4(), pod->v6(), kPodPort, pod->name());
    if (!server.ok()) return server.status();
    world->servers.push_back(*std::move(server));
  }
  absl::StatusOr<std::unique_ptr<EchoServer>> outside = MakeOutside(net, *world->outside);
  if (!outside.ok()) return outside.status();
  world->servers.push_back(*std::move(outside));
  if (absl::Status status = world->RestartAgent({}); !status.ok()) return status;
  return world;
}

absl::Status World::RestartAgent(const std::vector<std::string>& flags) {
  return RestartAgent(flags, Basics());
}

absl::Status World::RestartAgent(const std::vector<std::string>& flags, const Objects& objects) {
  if (const std::unique_ptr<Agent> old = std::move(agent)) {
    if (absl::Status status = old->Stop(); !status.ok()) return status;
  }
  absl::StatusOr<std::unique_ptr<Agent>> started = Agent::Start(node().netns(), flags);
  if (!started.ok()) return started.status();
  agent = *std::move(started);
  this->flags = flags;
  return agent->Replace(objects);
}

absl::Status DropEchoRequests(const NetNs& netns, const std::string& name,
                              const std::string& condition) {
  return RunNft(netns, absl::StrCat("table inet ", name, " {\nchain input {\n",
                                    "type filter hook input priority 10;\n",
                                    "icmp type echo-request ", condition, " drop\n",
                                    "icmpv6 type echo-request ", condition, " drop\n}\n}\n"));
}

Objects Basics() {
  return {ANode(kAgentNode)
              .InternalIp(kNodeV4)
              .InternalIp(kNodeV6)
              .PodCidr(kPodCidrV4)
              .PodCidr(kPodCidrV6),
          AServiceCidr("kubernetes", {kServiceCidrV4, kServiceCidrV6})};
}

AService Web(const std::string& key, const Address& cluster_ip) {
  AService service(key);
  service.ClusterIps(cluster_ip.v4, cluster_ip.v6);
  for (const Protocol protocol : kProtocols) service.Port(ProtocolName(protocol), 80, protocol);
  return service;
}

AService ExternalWeb(const std::string& key, const Address& cluster_ip) {
  AService service(key);
  service.ClusterIps(cluster_ip.v4, cluster_ip.v6);
  for (const Protocol protocol : kProtocols) {
    service.Port(ProtocolName(protocol), 80, protocol).NodePort(kNodePort);
  }
  return service.ExternalIp(kExternalIp.v4)
      .ExternalIp(kExternalIp.v6)
      .LoadBalancerIp(kLoadBalancerIp.v4)
      .LoadBalancerIp(kLoadBalancerIp.v6);
}

Objects SlicesOf(const std::string& service, const std::vector<const Host*>& hosts,
                 const std::vector<SlicePort>& ports) {
  Objects slices;
  for (const bool v6 : {false, true}) {
    ASlice slice(service);
    slice.Named(service.substr(service.find('/') + 1) + (v6 ? "-v6" : "-v4"));
    for (const Host* host : hosts) {
      // Topology uses 10.244.1.0/24 for pods of the node and 10.244.2.0/24 for remote pods.
      const bool local = host->v4().rfind("10.244.2.", 0) != 0;
      slice.Endpoint(host->address(v6), local ? kAgentNode : "n2");
    }
    for (const SlicePort& port : ports) slice.Port(port.name, port.number, port.protocol);
    v1::Object object = slice;
    object.mutable_endpoint_slice()->set_address_type(v6 ? "IPv6" : "IPv4");
    slices.push_back(std::move(object));
  }
  return slices;
}

Objects WithFirstTerminating(Objects slices, bool serving) {
  for (v1::Object& slice : slices) {
    v1::EndpointConditions& conditions =
        *slice.mutable_endpoint_slice()->mutable_endpoints(0)->mutable_conditions();
    conditions.set_ready(false);
    conditions.set_serving(serving);
    conditions.set_terminating(true);
  }
  return slices;
}

Objects WebSlices(const std::string& service, const std::vector<const Host*>& hosts) {
  std::vector<SlicePort> ports;
  for (const Protocol protocol : kProtocols) {
    ports.push_back({ProtocolName(protocol), kPodPort, protocol});
  }
  return SlicesOf(service, hosts, ports);
}

World* ServiceTest::world() {
  absl::StatusOr<std::unique_ptr<World>>& slot = WorldSlot();
  if (absl::IsNotFound(slot.status())) slot = World::Create();
  return slot.ok() ? slot->get() : nullptr;
}

void ServiceTest::SetUp() {
  if (world() == nullptr) {
    FAIL() << "packet tests need network namespaces (root): " << WorldSlot().status();
  }
  if (world()->agent == nullptr || world()->flags != AgentFlags()) {
    ASSERT_OK(world()->RestartAgent(AgentFlags()));
  }
  ASSERT_OK(agent().Replace(Basics()));
  ASSERT_OK(FlushConntrack(node().netns()));
}

void ServiceTest::TearDown() {
  if (world() == nullptr || world()->agent == nullptr) return;
  EXPECT_OK(agent().CheckServing());
  for (const auto& server : world()->servers) EXPECT_EQ(server->sctp_bad_checksums(), 0);
  if (HasFailure()) {
    const auto listing =
        RunOk({.argv = {"nft", "-s", "list", "ruleset"}, .netns = &node().netns()});
    const std::string text = listing.ok() ? *listing : listing.status().ToString();
    if (text.size() < 30000) GTEST_LOG_(INFO) << text;
    GTEST_LOG_(INFO) << agent().log();
  }
}

Request ServiceFlowTest::To(const Address& address, uint16_t port) {
  return {.protocol = protocol(), .destination = address.in(v6()), .port = port};
}

Request ServiceFlowTest::InVain(const Address& address, uint16_t port) {
  Request request = To(address, port);
  request.timeout = kShort;
  return request;
}

Answer ServiceFlowTest::Ask(const Host& from, const Request& request) {
  return testing::Ask(from.netns(), request);
}

std::string FamilyParamName(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "IPv6" : "IPv4";
}

std::string FlowParamName(const ::testing::TestParamInfo<std::tuple<bool, Protocol>>& info) {
  return absl::StrCat(std::get<0>(info.param) ? "IPv6_" : "IPv4_",
                      ProtocolName(std::get<1>(info.param)));
}

::testing::AssertionResult AnsweredBy(const Answer& answer, const std::string& server,
                                      const std::string& seen_source) {
  if (answer.outcome == Outcome::kAnswered && answer.server == server &&
      answer.seen_ip == seen_source) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "expected " << server << " seeing " << seen_source << ", got " << answer;
}

::testing::AssertionResult Rejected(const Answer& answer) {
  if (answer.RejectedByRules()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "expected " << (answer.tcp ? "a TCP reset" : "port unreachable") << ", got " << answer;
}

::testing::AssertionResult NoAnswer(const Answer& answer) {
  if (answer.outcome == Outcome::kTimedOut) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "expected no answer, got " << answer;
}

namespace {

std::string Sorted(const std::string& listing) {
  std::string sorted;
  size_t at = 0;
  for (const ElementsAt& list : FindElements(listing)) {
    sorted += listing.substr(at, list.begin - at) + "\n" + absl::StrJoin(list.elements, ",\n");
    at = list.end;
  }
  return sorted + listing.substr(at);
}

// Removes sets that packets update, and values that change with every commit.
std::string WithoutState(std::string listing) {
  for (const std::string map :
       {"map marker {", "map affinity {", "set service-connections {", "set range-connections {"}) {
    size_t at = 0;
    while ((at = listing.find(map, at)) != std::string::npos) {
      listing.erase(at, listing.find("\n\t}", at) - at);
    }
  }
  return listing;
}

}  // namespace

absl::StatusOr<std::string> SortedRuleset(const NetNs& netns) {
  absl::StatusOr<std::string> listing = Nft(netns, "-s list ruleset");
  return listing.ok() ? Sorted(*listing) : listing;
}

absl::StatusOr<std::string> SortedRulesetOf(const std::string& script) {
  const absl::StatusOr<NetNs> netns = NetNs::Create();
  if (!netns.ok()) return netns.status();
  if (absl::Status status = RunNft(*netns, script); !status.ok()) return status;
  return SortedRuleset(*netns);
}

void ExpectAppliedIsInTheKernel(Agent& agent, const NetNs& netns) {
  absl::StatusOr<std::string> dumped;
  absl::StatusOr<std::string> kernel;
  // Between the two reads, the agent may commit changes and delete leftovers.
  const bool equal = WaitUntil([&] {
    const absl::StatusOr<std::string> skeleton = Nft(netns, "-s -t list ruleset");
    dumped = agent.Dump(v1::DumpRequest::APPLIED);
    if (skeleton.ok() && dumped.ok()) dumped = SortedRulesetOf(*skeleton + *dumped);
    kernel = SortedRuleset(netns);
    return skeleton.ok() && dumped.ok() && kernel.ok() &&
           WithoutState(*dumped) == WithoutState(*kernel);
  });
  ASSERT_OK(dumped);
  ASSERT_OK(kernel);
  EXPECT_TRUE(equal) << "dump:\n" << *dumped << "\nkernel:\n" << *kernel;
}

}  // namespace svcmap::testing
