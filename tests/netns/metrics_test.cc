// Tests of svcmapd's metrics on port 10249. Each metric changes with the events that the metric
// counts.
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

}  // namespace
}  // namespace svcmap::testing
