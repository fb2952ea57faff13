// Tests of session affinity by client address. New connections from a client use the endpoint of
// the client's previous connection.
#include <set>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/netns/flow.h"
#include "tests/support/chance.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

// Number of connections that reach both of two endpoints without affinity.
const int kConnections = TriesToReachAll(2);
// Number of clients. A client changes its endpoint with a probability of at least 1/4 if it had the
// removed one of two endpoints and picks again, so at least one client changes its endpoint. The
// clients also reach all endpoints of a Service with three endpoints.
const int kClients = TriesToReachAll(1, 0.25);
constexpr std::chrono::seconds kShortTimeout{1};

AService Sticky(AService service, int timeout = 10800) { return service.ClientIpAffinity(timeout); }

// The endpoints of the clients' connections. Element N is the endpoint of the client
// ClientAddress(N).
using Placement = std::vector<std::string>;

// Opens one connection from each client.
Placement PlaceClients(const Host& client, Request request, bool v6, int clients) {
  Placement placement;
  for (int i = 0; i < clients; ++i) {
    request.source = ClientAddress(i).in(v6);
    const Answer answer = Ask(client.netns(), request);
    EXPECT_EQ(answer.outcome, Outcome::kAnswered) << "client " << i << ": " << answer;
    placement.push_back(answer.server);
  }
  return placement;
}

int Moved(const Placement& before, const Placement& after) {
  int moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved += before[i] != after[i] ? 1 : 0;
  return moved;
}

class AffinityTest : public ServiceFlowTest {
 protected:
  absl::Status Serve(const AService& service, const std::string& endpoints) {
    return agent().Apply(Objects{service} + Slices(*world(), "shop/web", endpoints));
  }

  // Returns the endpoints that answered `count` connections.
  std::set<std::string> Answering(const Host& from, const Request& request,
                                  int count = kConnections) {
    const Tally tally = AskMany(from.netns(), request, count);
    EXPECT_EQ(tally.answered, count) << tally.ToString();
    std::set<std::string> names;
    for (const auto& [name, ignored] : tally.by_server) names.insert(name);
    return names;
  }
  // Returns the endpoint that answered all connections, or an empty string if several endpoints
  // answered.
  std::string Only(const Host& from, const Request& request, int count = kConnections) {
    const std::set<std::string> names = Answering(from, request, count);
    return names.size() == 1 ? *names.begin() : "";
  }
  Placement Place(const Request& request) {
    return PlaceClients(client(), request, v6(), kClients);
  }
  static std::set<std::string> Used(const Placement& placement) {
    return {placement.begin(), placement.end()};
  }
  using Servers = std::set<std::string>;
};
INSTANTIATE_FLOWS(AffinityTest);

TEST_P(AffinityTest, S122_OneEndpointForAllAddressesOfAPort) {
  ASSERT_OK(Serve(Sticky(ExternalWeb("shop/web", kV)), "L1 L2"));
  const Placement before = Place(To(kV));
  EXPECT_EQ(Used(before), (Servers{"pod-a", "pod-b"}));
  EXPECT_EQ(Place(To(kExternalIp)), before);
  EXPECT_EQ(Place(To(kLoadBalancerIp)), before);
  EXPECT_EQ(Place(To(kNode, kNodePort)), before);
  EXPECT_EQ(Place(To(kV)), before);
  for (const Host* from : {world()->cast.at("P"), &node()}) {
    EXPECT_NE(Only(*from, To(kV)), "") << from->name();
  }
}

TEST_P(AffinityTest, S123_PoliciesAndAffinity) {
  ASSERT_OK(
      Serve(Sticky(ExternalWeb("shop/web", kV)).ExternalPolicy("Local").InternalPolicy("Local"),
            "L1 L2 R1 R2"));
  for (const Address& to : {kV, kExternalIp, kLoadBalancerIp}) {
    const Placement before = Place(To(to));
    EXPECT_EQ(Used(before), (Servers{"pod-a", "pod-b"}));
    EXPECT_EQ(Place(To(to)), before);
  }
  // Affinity does not change the source address that the endpoint sees.
  EXPECT_EQ(Ask(client(), To(kExternalIp)).seen_ip, At(client()));
  EXPECT_EQ(Ask(client(), To(kV)).seen_ip, At(node()));
  const Host& pod = *world()->cast.at("P");
  EXPECT_EQ(Ask(pod, To(kV)).seen_ip, At(pod));
  EXPECT_EQ(Ask(pod, To(kExternalIp)).seen_ip, At(pod));
  Request request = To(kExternalIp);
  request.source = kNodeSecond.in(v6());
  EXPECT_EQ(Ask(node(), request).seen_ip, At(node()));
}

// Tests an endpoint in the node's network namespace. The kernel itself reads the marks of packets
// to the node, and policies and affinity write additional marks.
TEST_P(AffinityTest, S79_S122_AnEndpointInTheNodesOwnNetwork) {
  ASSERT_OK_AND_ASSIGN(const auto process, EchoServer::StartAll(node().netns(), kNodeV4, kNodeV6,
                                                                kPodPort, "node-process"));
  const AService local =
      ExternalWeb("shop/web", kV).InternalPolicy("Local").ExternalPolicy("Local");
  for (const AService& service : {local, Sticky(local), Sticky(ExternalWeb("shop/web", kV))}) {
    ASSERT_OK(FlushConntrack(node().netns()));
    ASSERT_OK(agent().Apply(Objects{service} + WebSlices("shop/web", {&node()})));
    for (const Host* from : {&pod_b(), &client(), &node()}) {
      SCOPED_TRACE(from->name());
      for (int i = 0; i < 2; ++i) {
        EXPECT_ANSWERED_BY(Ask(*from, To(kV)), "node-process", At(*from));
        EXPECT_ANSWERED_BY(Ask(*from, To(kNode, kNodePort)), "node-process", At(*from));
        EXPECT_ANSWERED_BY(Ask(*from, To(kExternalIp)), "node-process", At(*from));
      }
    }
  }
}

// Tests a Service with more endpoints than the largest exact pick class (16). Each endpoint is a
// port of one pod.
TEST_P(AffinityTest, S122_ManyEndpoints) {
  constexpr uint16_t kFirstPort = 9000;
  constexpr int kEndpoints = 50;
  ASSERT_OK_AND_ASSIGN(const auto server, EchoServer::Start(pod_a().netns()));
  Objects objects = {
      Sticky(ExternalWeb("shop/web", kV)).ExternalPolicy("Local").InternalPolicy("Local")};
  for (int i = 0; i < kEndpoints; ++i) {
    const auto port = static_cast<uint16_t>(kFirstPort + i);
    ASSERT_OK(server->Listen({protocol(), At(pod_a()), port, absl::StrCat(i)}));
    objects.push_back(ASlice("shop/web")
                          .Named(absl::StrCat("web-", i))
                          .Endpoint(At(pod_a()), kAgentNode)
                          .Port(ProtocolName(protocol()), port, protocol()));
  }
  ASSERT_OK(agent().Apply(objects));
  const Placement before = Place(To(kExternalIp));
  // The expected number of endpoints is about 43. All clients use 20 or fewer endpoints with a
  // probability of at most binomial(50, 20) * (20 / 50)^97 = 1e-25.
  EXPECT_GT(Used(before).size(), 20);
  EXPECT_EQ(Place(To(kExternalIp)), before);
  EXPECT_EQ(Place(To(kV)), before);
  // Remove half of the endpoints.
  std::vector<v1::ObjectRef> leaving;
  for (int i = 0; i < kEndpoints; i += 2) {
    leaving.push_back(SliceRef(absl::StrCat("shop/web-", i)));
  }
  ASSERT_OK(agent().Remove(leaving));
  const Placement after = Place(To(kV));
  for (size_t i = 0; i < before.size(); ++i) {
    int endpoint = 0;
    ASSERT_TRUE(absl::SimpleAtoi(after[i], &endpoint));
    EXPECT_EQ(endpoint % 2, 1) << "client " << i;
    if (absl::SimpleAtoi(before[i], &endpoint) && endpoint % 2 == 1) {
      EXPECT_EQ(after[i], before[i]) << "client " << i;
    }
  }
}

// Tests whose results do not depend on the protocol.
class AffinityFamilyTest : public AffinityTest {};
INSTANTIATE_TEST_SUITE_P(, AffinityFamilyTest,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(Protocol::kTcp)),
                         FlowParamName);

// An affinity record applies only if the packet may use the recorded endpoint.
TEST_P(AffinityFamilyTest, S123_ARecordOutsideTheSetDoesNotCount) {
  ASSERT_OK(Serve(Sticky(ExternalWeb("shop/web", kV)).ExternalPolicy("Local"), "L1 R1 R2"));
  const Placement internal = Place(To(kV));
  EXPECT_EQ(Used(internal), (Servers{"pod-a", "remote-pod", "R2"}));
  EXPECT_EQ(Used(Place(To(kExternalIp))), Servers{"pod-a"});
}

TEST_P(AffinityFamilyTest, S125_AClientThatUsesBothSetsSettlesOnAnEndpointOfBoth) {
  ASSERT_OK(Serve(Sticky(ExternalWeb("shop/web", kV)).ExternalPolicy("Local"), "L1 R1 R2"));
  ASSERT_EQ(Used(Place(To(kExternalIp))), Servers{"pod-a"});
  // The cluster endpoint set contains other endpoints, but the affinity record of each client names
  // the local endpoint.
  EXPECT_EQ(Used(Place(To(kV))), Servers{"pod-a"});
}

TEST_P(AffinityFamilyTest, S14_S126_TurnedOffItIsOffAndForgotten) {
  ASSERT_OK(Serve(Sticky(ExternalWeb("shop/web", kV)), "L1 L2"));
  const Placement before = Place(To(kV));
  ASSERT_OK(Serve(ExternalWeb("shop/web", kV), "L1 L2"));
  EXPECT_EQ(Answering(client(), To(kV)).size(), 2);
  ASSERT_OK(Serve(Sticky(ExternalWeb("shop/web", kV)), "L1 L2"));
  const Placement after = Place(To(kV));
  EXPECT_GT(Moved(before, after), 0);
  EXPECT_EQ(Place(To(kV)), after);
}

// The agent deletes records of endpoints that were removed while no agent was running.
TEST_P(AffinityFamilyTest, S126_S342_WhoLeftDuringARestartIsForgotten) {
  const Objects services = Basics() + Objects{Sticky(ExternalWeb("shop/web", kV))};
  ASSERT_OK(agent().Replace(services + Slices(*world(), "shop/web", "L1 L2")));
  const Placement before = Place(To(kV));
  ASSERT_OK(world()->RestartAgent({}, services + Slices(*world(), "shop/web", "L2 R1")));
  const Placement after = Place(To(kV));
  EXPECT_EQ(Used(after), (Servers{"pod-b", "remote-pod"}));
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == "pod-b") {
      EXPECT_EQ(after[i], "pod-b") << "client " << i;
    }
  }
}

// One pod simulates thousands of clients. Each client has an affinity record.
TEST_P(AffinityFamilyTest, S128_ThousandsOfClients) {
  constexpr int kMany = 2000;
  ASSERT_OK(world()->topology->AddPrefix(client(), v6() ? "2001:db8:203:2::/64" : "100.64.0.0/16"));
  ASSERT_OK(Serve(Sticky(ExternalWeb("shop/web", kV)), "L1 L2"));
  const auto place = [&] {
    Placement placement;
    for (int i = 0; i < kMany; ++i) {
      Request request = To(kV);
      request.source = v6() ? absl::StrCat("2001:db8:203:2::", absl::Hex(i + 1))
                            : absl::StrCat("100.64.", i / 250, ".", i % 250 + 1);
      placement.push_back(Ask(client(), request).server);
    }
    return placement;
  };
  const Placement before = place();
  EXPECT_EQ(Moved(before, place()), 0);
  EXPECT_EQ(Used(before), (Servers{"pod-a", "pod-b"}));
}

// Each test uses both IP families at the same time, and most tests wait for timeouts. An open
// connection transfers data, which must not extend an affinity record.
class AffinityTimeTest : public ServiceTest {
 protected:
  absl::Status Serve(int timeout) {
    return agent().Apply(Objects{Sticky(ExternalWeb("shop/web", kV), timeout)} +
                         Slices(*world(), "shop/web", "L1 L2"));
  }
  Placement Place(const Address& to, int clients = kClients) {
    Placement both;
    for (const bool v6 : {false, true}) {
      both = both + PlaceClients(client(), {.destination = to.in(v6), .port = 80}, v6, clients);
    }
    return both;
  }
  absl::Status SendFor(std::chrono::duration<double> time) {
    std::vector<TcpFlow> flows;
    for (const bool v6 : {false, true}) {
      absl::StatusOr<TcpFlow> flow =
          TcpFlow::Open(client().netns(),
                        {.destination = kV.in(v6), .port = 80, .source = ClientAddress(0).in(v6)});
      if (!flow.ok()) return flow.status();
      flows.push_back(*std::move(flow));
    }
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
      for (TcpFlow& flow : flows) {
        if (absl::Status status = flow.Exchange(1000); !status.ok()) return status;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return absl::OkStatus();
  }
  // Opens connections until the affinity record of a client has expired.
  absl::Status SendUntilOneMoved(const Placement& before, const Address& to) {
    return Eventually("another endpoint for some client", [&] {
      EXPECT_OK(SendFor(1.1 * kShortTimeout));
      const Placement after = Place(to);
      const Placement after_v4(after.begin(), after.begin() + kClients);
      const Placement after_v6(after.begin() + kClients, after.end());
      return Moved({before.begin(), before.begin() + kClients}, after_v4) > 0 &&
             Moved({before.begin() + kClients, before.end()}, after_v6) > 0;
    });
  }
};

TEST_F(AffinityTimeTest, S124_NewConnectionsRestartTheTimer) {
  ASSERT_OK(Serve(kShortTimeout.count()));
  // Number of connections that the test can repeat within the timeout.
  constexpr int kFew = 24;
  EXPECT_OK(Eventually("twice the timeout in which all came again in time", [&] {
    auto last = std::chrono::steady_clock::now();
    const auto end = last + 2 * kShortTimeout;
    const Placement before = Place(kV, kFew);
    while (last < end) {
      EXPECT_OK(SendFor(kShortTimeout / 5.0));
      const auto start = std::chrono::steady_clock::now();
      const Placement after = Place(kV, kFew);
      // On a slow machine, a record can have expired.
      if (std::chrono::steady_clock::now() - last > 0.9 * kShortTimeout) return false;
      EXPECT_EQ(after, before);
      last = start;
    }
    return true;
  }));
}

TEST_F(AffinityTimeTest, S127_AShorterTimeoutHoldsForRecordsThatAreRefreshed) {
  ASSERT_OK(Serve(3600));
  const Placement before = Place(kV);
  ASSERT_OK(Serve(kShortTimeout.count()));
  EXPECT_EQ(Place(kV), before);  // The change does not delete any affinity record.
  EXPECT_OK(SendUntilOneMoved(before, kV));
}

// Each Service has its own timeout.
TEST_F(AffinityTimeTest, S124_RecordsEndWithTheirTimeout) {
  ASSERT_OK(Serve(kShortTimeout.count()));
  ASSERT_OK(agent().Apply(Objects{Sticky(Web("shop/other", kW), 3600)} +
                          Slices(*world(), "shop/other", "L1 L2")));
  const Placement web = Place(kV);
  const Placement other = Place(kW);
  EXPECT_OK(SendUntilOneMoved(web, kV));
  EXPECT_EQ(Place(kW), other);
}

}  // namespace
}  // namespace svcmap::testing
