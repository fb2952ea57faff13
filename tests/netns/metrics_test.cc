// Tests of svcmapd's metrics on port 10249. Each metric changes with the events that the metric
// counts.
#include <signal.h>

#include <fstream>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/raw_http.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::testing {
namespace {

constexpr uint16_t kMetricsPort = 10249;
constexpr char kScrapedAt[] = "127.0.0.1";

std::string Of(const std::string& name, const std::string& labels) {
  return absl::StrCat(name, "{", labels, "}");
}
const std::string kV4Label = R"(ip_family="IPv4")";
const std::string kV6Label = R"(ip_family="IPv6")";

class MetricsTest : public ServiceTest {
 protected:
  const NetNs& netns() { return node().netns(); }
  double Value(const std::string& sample) {
    const Samples samples = ReadMetrics(netns());
    const auto found = samples.find(sample);
    EXPECT_NE(found, samples.end()) << sample;
    return found == samples.end() ? -1 : found->second;
  }
  // Runs `step` and expects that the samples increase by these values.
  void ExpectAdded(const std::map<std::string, double>& wanted, const std::function<void()>& step) {
    const Samples before = ReadMetrics(netns());
    step();
    for (const auto& [sample, added] : wanted) {
      ASSERT_TRUE(before.contains(sample)) << sample;
      ExpectSoon(sample, before.at(sample) + added);
    }
  }
  // After many scrapes, svcmapd returns a page that is up to 100 ms old.
  void ExpectSoon(const std::string& sample, double wanted) {
    EXPECT_OK(Eventually(sample, [&] { return Value(sample) == wanted; }))
        << "wanted " << wanted << ", is " << Value(sample);
  }
};

TEST_F(MetricsTest, S269_S271_S275_S277_ABatchMovesTheNumbers) {
  const std::string syncs = "kubeproxy_sync_proxy_rules_duration_seconds_count";
  const std::string full = "kubeproxy_sync_full_proxy_rules_duration_seconds_count";
  const std::string partial = "kubeproxy_sync_partial_proxy_rules_duration_seconds_count";
  ExpectAdded({{Of(syncs, kV4Label), 1},
               {Of(syncs, kV6Label), 1},
               {Of(full, kV4Label), 0},
               {Of(partial, kV4Label), 1},
               {"svcmap_commits_total", 1},
               {"svcmap_commit_duration_seconds_count", 1},
               {"svcmap_revision", 1},
               {"kubeproxy_sync_proxy_rules_service_changes_total", 1},
               {"kubeproxy_sync_proxy_rules_endpoint_changes_total", 2},
               {"svcmap_objects{kind=\"Service\"}", 1},
               {"svcmap_objects{kind=\"EndpointSlice\"}", 2},
               {"svcmap_service_ports", 3},
               {Of("svcmap_map_elements", R"(map="cluster-ips",ip_family="IPv4")"), 1},
               {Of("svcmap_map_elements", R"(map="endpoints",ip_family="IPv6")"), 6}},
              [&] {
                ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} +
                                        WebSlices("shop/web", {&pod_a(), &remote_pod()})));
              });
  EXPECT_EQ(Value("kubeproxy_sync_proxy_rules_endpoint_changes_pending"), 0);
  EXPECT_EQ(Value("kubeproxy_sync_proxy_rules_service_changes_pending"), 0);
}

TEST_F(MetricsTest, TheySayWhatStatusSays) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  Samples samples = ReadMetrics(netns());
  EXPECT_EQ(samples["svcmap_revision"], status.revision());
  EXPECT_EQ(samples["svcmap_service_ports"], status.service_ports());
  EXPECT_EQ(samples["svcmap_elements_written_total"], status.elements_written());
  EXPECT_EQ(samples["svcmap_verified"], status.verified());
  EXPECT_EQ(samples["svcmap_watching"], status.watching());
  for (const v1::MapCount& map : status.maps()) {
    // Packets add records to this map, so the agent does not count its elements.
    if (map.name() == "affinity") continue;
    const std::string labels =
        absl::StrCat("map=\"", map.name(), "\",ip_family=\"", map.family(), "\"");
    EXPECT_EQ(samples[Of("svcmap_map_elements", labels)], map.elements()) << labels;
  }
}

TEST_F(MetricsTest, RepairsAreCounted) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const double repairs = Value("svcmap_repairs_total");
  const double elements = Value("svcmap_repaired_elements_total");
  ASSERT_OK(RunNft(netns(), "flush map ip svcmap service-ips"));
  EXPECT_OK(Eventually("it is put right", [&] { return Value("svcmap_repairs_total") > repairs; }));
  ExpectSoon("svcmap_repaired_elements_total", elements + 3);
  ExpectSoon("svcmap_verified", 1);
}

TEST_F(MetricsTest, AControllerIsSeenComingAndGoing) {
  EXPECT_OK(
      Eventually("nobody is connected", [&] { return Value("svcmap_controller_connected") == 0; }));
  {
    ASSERT_OK_AND_ASSIGN(const auto stream, agent().Push());
    ExpectSoon("svcmap_controller_connected", 1);
    EXPECT_GT(Value("svcmap_controller_since_timestamp_seconds"), 1.7e9);
  }
  EXPECT_OK(
      Eventually("nobody is connected", [&] { return Value("svcmap_controller_connected") == 0; }));
}

TEST_F(MetricsTest, RejectedObjectsAreCounted) {
  ExpectAdded({{"svcmap_refused_objects", 1}}, [&] {
    ASSERT_OK(agent().TryApply({AService("shop/odd").ClusterIp("nonsense").Port("tcp", 80)}));
  });
}

// Tests that start their own agents.
class MetricsAddressTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(netns_, NetNs::Create()); }

  bool Closed() {
    return absl::IsUnavailable(RawConnection::Open(*netns_, kScrapedAt, kMetricsPort).status());
  }

  std::optional<NetNs> netns_;
};

TEST_F(MetricsAddressTest, S267_EmptyAndZeroAreNowhere) {
  for (const char* nowhere : {"", "0"}) {
    ASSERT_OK_AND_ASSIGN(const auto agent,
                         Agent::Start(*netns_, {"--metrics-bind-address", nowhere}));
    EXPECT_TRUE(Closed()) << "\"" << nowhere << "\"";
  }
}

TEST_F(MetricsAddressTest, S268_AnAddressThatIsTakenDoesNotStopTheAgent) {
  ASSERT_OK_AND_ASSIGN(const auto agent,
                       Agent::Start(*netns_, {"--metrics-bind-address", "0.0.0.0:10256"}));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, HttpRequest(*netns_, kScrapedAt, 10256, "/livez"));
  EXPECT_EQ(answer.code, 200);
  EXPECT_NE(agent->log().find("cannot serve /metrics, retrying every 5 s address=0.0.0.0:10256"),
            std::string::npos)
      << agent->log();
}

TEST_F(MetricsAddressTest, S268_WithHardFailItEndsInstead) {
  const auto agent = Agent::Start(
      *netns_, {"--metrics-bind-address", "0.0.0.0:10256", "--bind-address-hard-fail"});
  ASSERT_FALSE(agent.ok());
  EXPECT_NE(agent.status().message().find("listen on 0.0.0.0:10256: Address already in use"),
            std::string::npos)
      << agent.status();
}

TEST_F(MetricsAddressTest, S267_S296_TheConfigurationSaysWhereAndIsReportedAtConfigz) {
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string path = folder.path() + "/config.conf";
  std::ofstream(path) << "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
                         "kind: KubeProxyConfiguration\n"
                         "metricsBindAddress: 127.0.0.1:10251\n";
  ASSERT_OK_AND_ASSIGN(const auto agent, Agent::Start(*netns_, {"--config", path}));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer,
                       HttpRequest(*netns_, kScrapedAt, 10251, "/configz"));
  EXPECT_EQ(answer.code, 200);
  EXPECT_TRUE(answer.body.starts_with(R"({"kubeproxy.config.k8s.io":{)")) << answer.body;
  EXPECT_NE(answer.body.find(R"("metricsBindAddress":"127.0.0.1:10251")"), std::string::npos);
}

// Tests of --service-counters. /metrics reports the number of connections to each Service.

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
