// Tests of --service-counters. /metrics reports the number of connections to each Service.
#include <signal.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"

namespace svcmap::testing {
namespace {

// Connection counts in /metrics. The key is "NAMESPACE/NAME PROTOCOL DESTINATION". All Service
// ports are 80.
using Connections = std::map<std::string, int>;

constexpr char kMetric[] = "svcmap_service_connections_total{";

std::string Label(const std::string& line, const std::string& name) {
  const std::string before = absl::StrCat(name, "=\"");
  const size_t begin = line.find(before) + before.size();
  return line.substr(begin, line.find('"', begin) - begin);
}

std::string At(const std::string& service, Protocol protocol, const std::string& ip, int port) {
  const bool v6 = ip.find(':') != std::string::npos;
  return absl::StrCat(service, " ", protocol == Protocol::kTcp ? "TCP" : "UDP", " ", v6 ? "[" : "",
                      ip, v6 ? "]:" : ":", port);
}

class CountersTest : public ServiceTest {
 protected:
  std::vector<std::string> AgentFlags() override { return {"--service-counters"}; }
  // Restarts without --service-counters, which deletes the set and its counts.
  void TearDown() override {
    if (world() == nullptr) return;
    ServiceTest::TearDown();
    EXPECT_OK(world()->RestartAgent({}));
  }

  Connections Read() {
    Connections connections;
    for (const auto& [sample, count] : ReadMetrics(node().netns())) {
      if (!sample.starts_with(kMetric)) continue;
      EXPECT_EQ(Label(sample, "port"), "80") << sample;
      if (Label(sample, "protocol") == "SCTP") continue;
      connections[absl::StrCat(Label(sample, "namespace"), "/", Label(sample, "name"), " ",
                               Label(sample, "protocol"), " ", Label(sample, "destination"))] =
          static_cast<int>(count);
    }
    return connections;
  }
  // Waits for the expected counts, because counts in /metrics can be up to one second old.
  void Expect(const Connections& wanted) {
    Connections read;
    const auto equal = [&] { return (read = Read()) == wanted; };
    if (WaitUntil(equal)) return;
    EXPECT_EQ(read, wanted);
  }

  // Returns a count of 0 for each address of a Service that Web() builds.
  static Connections Zeros(const std::string& service, const Address& cluster_ip) {
    Connections zeros;
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
      for (const bool v6 : {false, true}) zeros[At(service, protocol, cluster_ip.in(v6), 80)] = 0;
    }
    return zeros;
  }
  static Connections ExternalZeros(const std::string& service, const Address& cluster_ip) {
    Connections zeros = Zeros(service, cluster_ip);
    for (const Address& address : {kExternalIp, kLoadBalancerIp}) {
      zeros.merge(Zeros(service, address));
    }
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
      for (const bool v6 : {false, true}) {
        zeros[At(service, protocol, kNode.in(v6), kNodePort)] = 0;
      }
    }
    return zeros;
  }

  // Opens connections, expects an answer to each connection, and adds the connections to `wanted`.
  void Connect(const Host& from, const std::string& service, const Address& address, int port,
               int count, Connections& wanted) {
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
      for (const bool v6 : {false, true}) {
        const int n = count + (v6 ? 1 : 0) + (protocol == Protocol::kUdp ? 2 : 0);
        const Tally tally = AskMany(from.netns(),
                                    {.protocol = protocol,
                                     .destination = address.in(v6),
                                     .port = static_cast<uint16_t>(port)},
                                    n);
        EXPECT_EQ(tally.answered, n) << tally.ToString();
        wanted[At(service, protocol, address.in(v6), port)] += n;
      }
    }
  }
};

TEST_F(CountersTest, NConnectionsAreNWhereTheyWereSentTo) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kWeb), Web("shop/other", ClusterIp(11))} +
                          WebSlices("shop/web", {&pod_a(), &remote_pod()}) +
                          WebSlices("shop/other", {&pod_b()})));
  Connections wanted = ExternalZeros("shop/web", kWeb);
  wanted.merge(Zeros("shop/other", ClusterIp(11)));
  Expect(wanted);
  Connect(client(), "shop/web", kWeb, 80, 3, wanted);
  Connect(client(), "shop/web", kNode, kNodePort, 10, wanted);
  Connect(client(), "shop/web", kExternalIp, 80, 20, wanted);
  Connect(client(), "shop/web", kLoadBalancerIp, 80, 30, wanted);
  Connect(pod_b(), "shop/web", kWeb, 80, 5, wanted);  // Connections from a local pod.
  // Connections from the node pass the output hook.
  Connect(node(), "shop/web", kWeb, 80, 7, wanted);
  Expect(wanted);
  Connect(node(), "shop/other", ClusterIp(11), 80, 1, wanted);
  Expect(wanted);
}

// Connections are counted by Service address, independent of the endpoints.
TEST_F(CountersTest, ItGoesOnWhenEndpointsChangeAndWhenMapsAreRewritten) {
  ASSERT_OK(agent().Apply({Web("shop/web", kWeb)}));
  Connections wanted = Zeros("shop/web", kWeb);
  for (const std::vector<const Host*>& hosts :
       {std::vector<const Host*>{&pod_a()}, {&pod_a(), &pod_b()}, {&remote_pod()}, {}}) {
    ASSERT_OK(agent().Apply(WebSlices("shop/web", hosts)));
    if (!hosts.empty()) {
      Connect(client(), "shop/web", kWeb, 80, 4, wanted);
    } else {  // Connections to a Service without endpoints are rejected.
      EXPECT_EQ(AskMany(client().netns(), {.destination = kWeb.v4, .port = 80}, 3).rejected, 3);
    }
  }
  // svcmapd has no chains for this affinity timeout, so it rewrites the tables with all maps.
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb).ClientIpAffinity(77)} +
                          WebSlices("shop/web", {&pod_a(), &pod_b()})));
  Connect(client(), "shop/web", kWeb, 80, 6, wanted);
  Expect(wanted);
  // Connection counts continue after a restart of the agent.
  ASSERT_OK(world()->RestartAgent(
      {"--service-counters"},
      Basics() + Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  Connect(client(), "shop/web", kWeb, 80, 1, wanted);
  Expect(wanted);
}

TEST_F(CountersTest, S345_WhatWasCountedIsNoDamageAndTheListingLoadsAgain) {
  // nft cannot load records that a shorter timeout has updated ("timeout 1s expires 59m").
  ASSERT_OK(
      RunNft(node().netns(), "flush map ip svcmap affinity\nflush map ip6 svcmap affinity\n"));
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  Connections wanted = Zeros("shop/web", kWeb);
  Connect(client(), "shop/web", kWeb, 80, 5, wanted);
  const auto audits = [this] { return agent().GetStatus().value().audits(); };
  ASSERT_EQ(kill(agent().pid(), SIGHUP), 0);
  EXPECT_OK(Eventually("everything is compared", [&] { return audits() > 0; }));
  EXPECT_OK(Eventually("and right", [&] { return agent().GetStatus().value().verified(); }));
  EXPECT_EQ(agent().GetStatus().value().repairs(), 0u) << agent().log();
  ExpectAppliedIsInTheKernel(agent(), node().netns());

  ASSERT_OK_AND_ASSIGN(const std::string listing, Nft(node().netns(), "list ruleset"));
  const std::string element = absl::StrCat(kWeb.v4, " . tcp . 80 counter packets 5 bytes ");
  EXPECT_NE(listing.find(element), std::string::npos) << listing;
  ASSERT_OK_AND_ASSIGN(const std::string loaded, SortedRulesetOf(listing));
  ASSERT_OK_AND_ASSIGN(const std::string ruleset, SortedRuleset(node().netns()));
  EXPECT_EQ(loaded, ruleset);
}

}  // namespace
}  // namespace svcmap::testing
