// Tests that the metrics taken from kube-proxy have kube-proxy's names, types, labels and buckets,
// and that docs/metrics.md lists all metrics.
#include <regex>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/metrics/families.h"
#include "tests/metrics/metrics_world.h"

namespace svcmap::api::test {
namespace {

using prometheus::MetricType;

const Metric* Find(const std::string& name) {
  for (const Metric& metric : AllMetrics()) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

std::string TypeName(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Summary:
      return "summary";
    default:
      return "histogram";
  }
}

// Returns the beginning of a metric's first sample on the page.
std::string FirstSample(const Metric& metric) {
  std::string sample(metric.name);
  if (metric.type == MetricType::Histogram || metric.type == MetricType::Summary) {
    sample += "_count";
  }
  return metric.labels.empty() ? sample + " " : sample + "{" + std::string(metric.labels[0]) + "=";
}

// A metric of kube-proxy, by requirement number (S-113, S-269..S-285).
struct Specified {
  int number;
  const char* name;  // Name of the metric without the prefix "kubeproxy_".
  MetricType type;
  std::set<std::string> labels;
};

const Specified kSpecified[] = {
    {113, "nftables_localhost_nodeport_listeners", MetricType::Gauge, {"ip_family"}},
    {113,
     "nftables_localhost_nodeport_listener_creation_failures_total",
     MetricType::Counter,
     {"ip_family"}},
    {269, "sync_proxy_rules_duration_seconds", MetricType::Histogram, {"ip_family"}},
    {270, "sync_full_proxy_rules_duration_seconds", MetricType::Histogram, {"ip_family"}},
    {271, "sync_partial_proxy_rules_duration_seconds", MetricType::Histogram, {"ip_family"}},
    {272, "sync_proxy_rules_last_timestamp_seconds", MetricType::Gauge, {"ip_family"}},
    {273, "sync_proxy_rules_last_queued_timestamp_seconds", MetricType::Gauge, {"ip_family"}},
    {274, "sync_proxy_rules_endpoint_changes_pending", MetricType::Gauge, {}},
    {275, "sync_proxy_rules_endpoint_changes_total", MetricType::Counter, {}},
    {276, "sync_proxy_rules_service_changes_pending", MetricType::Gauge, {}},
    {277, "sync_proxy_rules_service_changes_total", MetricType::Counter, {}},
    {278, "network_programming_duration_seconds", MetricType::Histogram, {"ip_family"}},
    {279,
     "sync_proxy_rules_no_local_endpoints_total",
     MetricType::Gauge,
     {"traffic_policy", "ip_family"}},
    {280, "sync_proxy_rules_nftables_sync_failures_total", MetricType::Counter, {"ip_family"}},
    {281, "sync_proxy_rules_nftables_cleanup_failures_total", MetricType::Counter, {"ip_family"}},
    {282, "conntrack_reconciler_sync_duration_seconds", MetricType::Histogram, {"ip_family"}},
    {283, "conntrack_reconciler_deleted_entries_total", MetricType::Counter, {"ip_family"}},
    {284, "proxy_healthz_total", MetricType::Counter, {"code"}},
    {285, "proxy_livez_total", MetricType::Counter, {"code"}},
};

class SpecifiedMetricTest : public ::testing::TestWithParam<Specified> {};

TEST_P(SpecifiedMetricTest, ItIsExposedWithItsTypeAndLabels) {
  const Metric* metric = Find(absl::StrCat("kubeproxy_", GetParam().name));
  ASSERT_NE(metric, nullptr);
  EXPECT_EQ(TypeName(metric->type), TypeName(GetParam().type));
  EXPECT_EQ(std::set<std::string>(metric->labels.begin(), metric->labels.end()), GetParam().labels);
}

INSTANTIATE_TEST_SUITE_P(Row, SpecifiedMetricTest, ::testing::ValuesIn(kSpecified),
                         [](const auto& info) {
                           return absl::StrCat("S", info.param.number, "_", info.param.name);
                         });

TEST(CatalogueTest, S286_NothingElseHasKubeProxysPrefix) {
  std::set<std::string> specified, ours;
  for (const Specified& row : kSpecified) specified.insert(absl::StrCat("kubeproxy_", row.name));
  for (const Metric& metric : AllMetrics()) {
    if (metric.name.starts_with("kubeproxy_")) ours.emplace(metric.name);
  }
  EXPECT_EQ(ours, specified);
}

TEST(CatalogueTest, NamesAreValidUniqueAndSayWhatTheyAre) {
  const std::regex valid("(kubeproxy|svcmap|process)_[a-z0-9_]+");
  std::set<std::string> seen;
  for (const Metric& metric : AllMetrics()) {
    const std::string name(metric.name);
    EXPECT_TRUE(std::regex_match(name, valid)) << name;
    EXPECT_TRUE(seen.insert(name).second) << name << " is there twice";
    EXPECT_FALSE(metric.help.empty()) << name;
    if (metric.type == MetricType::Counter) {
      EXPECT_TRUE(name.ends_with("_total")) << name;
    }
  }
}

// The page must contain each metric of the catalogue with its labels.
TEST(CatalogueTest, AllOfItIsExposed) {
  const std::string page = MetricsText(SomeFacts(), SomeConstants(), Observations());
  for (const Metric& metric : AllMetrics()) {
    const std::string name(metric.name);
    EXPECT_NE(page.find("# TYPE " + name + " " + TypeName(metric.type) + "\n"), std::string::npos)
        << name;
    EXPECT_NE(page.find("\n" + FirstSample(metric)), std::string::npos) << FirstSample(metric);
  }
}

// Returns the upper bounds of a histogram's buckets on the page.
std::vector<std::string> Bounds(const std::string& page, const std::string& name) {
  std::vector<std::string> bounds;
  const std::regex line(name + "_bucket\\{ip_family=\"IPv4\",le=\"([^\"]+)\"\\} ");
  for (std::sregex_iterator it(page.begin(), page.end(), line), end; it != end; ++it) {
    bounds.push_back((*it)[1]);
  }
  return bounds;
}

TEST(BucketsTest, S269_LatenciesHaveFifteenBucketsFromAMillisecond) {
  const std::string page = MetricsText(SomeFacts(), SomeConstants(), Observations());
  const std::vector<std::string> wanted = {"0.001", "0.002", "0.004",  "0.008", "0.016", "0.032",
                                           "0.064", "0.128", "0.256",  "0.512", "1.024", "2.048",
                                           "4.096", "8.192", "16.384", "+Inf"};
  for (const Specified& row : kSpecified) {
    if (row.type != MetricType::Histogram || row.number == 278) continue;
    EXPECT_EQ(Bounds(page, absl::StrCat("kubeproxy_", row.name)), wanted) << row.name;
  }
}

TEST(BucketsTest, S278_ProgrammingHasBucketsUpToFiveMinutes) {
  std::vector<std::string> wanted = {"0.25", "0.5"};
  for (int i = 1; i <= 59; ++i) wanted.push_back(std::to_string(i));
  for (int i = 60; i <= 115; i += 5) wanted.push_back(std::to_string(i));
  for (int i = 120; i <= 300; i += 30) wanted.push_back(std::to_string(i));
  wanted.emplace_back("+Inf");
  EXPECT_EQ(Bounds(MetricsText(SomeFacts(), SomeConstants(), Observations()),
                   "kubeproxy_network_programming_duration_seconds"),
            wanted);
}

std::string Table(const Catalogue& metrics) {
  std::string table = "| Name | Type | Labels | Meaning |\n| --- | --- | --- | --- |\n";
  for (const Metric& metric : metrics) {
    absl::StrAppend(
        &table, "| `", std::string(metric.name), "` | ", TypeName(metric.type), " | ",
        absl::StrJoin(std::vector<std::string>(metric.labels.begin(), metric.labels.end()), ", "),
        " | ", std::string(metric.help), " |\n");
  }
  return table;
}

// Only the tables between the "generated" and "end" markers in docs/metrics.md are generated. The
// rest of the document is edited by hand.
TEST(CatalogueTest, TheDocsHaveTheSameTables) {
  const std::string path = "docs/metrics.md";
  std::string text = ReadFile(SVCMAP_SOURCE_DIR "/" + path);
  for (const auto& [name, metrics] :
       {std::pair{"metrics", &AllMetrics()}, std::pair{"slis", &SliMetrics()}}) {
    const std::string begin = absl::StrCat("<!-- generated: ", name, " -->\n");
    const std::string end = "<!-- end -->";
    const size_t from = text.find(begin);
    ASSERT_NE(from, std::string::npos) << begin;
    const size_t start = from + begin.size();
    text.replace(start, text.find(end, start) - start, Table(*metrics));
  }
  ExpectFile(path, text);
}

}  // namespace
}  // namespace svcmap::api::test
