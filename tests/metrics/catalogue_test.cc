// Tests that the metrics taken from kube-proxy have kube-proxy's names, types, labels and buckets,
// and that docs/metrics.md lists all metrics.
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

// Tests that the dashboard and the alerts use only metrics and labels that svcmapd exposes.

constexpr char kDashboard[] = "deploy/grafana/svcmap.json";
constexpr char kRules[] = "deploy/prometheus/svcmap.rules.yaml";

// The title of the panel or alert, and its expression.
using Expression = std::pair<std::string, std::string>;

std::vector<Expression> DashboardExpressions() {
  const auto dashboard =
      nlohmann::json::parse(ReadFile(SVCMAP_SOURCE_DIR "/" + std::string(kDashboard)));
  std::vector<Expression> found;
  for (const auto& panel : dashboard["panels"]) {
    if (!panel.contains("targets")) continue;
    for (const auto& target : panel["targets"]) found.emplace_back(panel["title"], target["expr"]);
  }
  return found;
}

std::vector<Expression> RuleExpressions() {
  std::vector<Expression> found;
  const YAML::Node file = YAML::LoadFile(SVCMAP_SOURCE_DIR "/" + std::string(kRules));
  for (const YAML::Node& group : file["groups"]) {
    for (const YAML::Node& rule : group["rules"]) {
      found.emplace_back(rule["alert"].as<std::string>(), rule["expr"].as<std::string>());
    }
  }
  return found;
}

// Returns the labels of each exposed series.
std::map<std::string, std::set<std::string>> Series() {
  // Prometheus itself provides the series "up", and svcmap-kube and svcmap-etcd have other metrics.
  std::map<std::string, std::set<std::string>> series = {
      {"up", {}},
      {"svcmap_kube_certificate_expiry_timestamp_seconds", {"file"}},
      {"svcmap_etcd_certificate_expiry_timestamp_seconds", {"file"}}};
  for (const Metric& metric : AllMetrics()) {
    std::set<std::string> labels(metric.labels.begin(), metric.labels.end());
    const std::string name(metric.name);
    if (metric.type == MetricType::Counter || metric.type == MetricType::Gauge) {
      series[name] = labels;
      continue;
    }
    series[name + "_sum"] = series[name + "_count"] = labels;
    if (metric.type != MetricType::Histogram) continue;
    labels.insert("le");
    series[name + "_bucket"] = labels;
  }
  for (auto& [name, labels] : series) labels.insert({"job", "instance"});
  return series;
}

// Names in an expression: metrics with the labels in their selectors, and labels in groupings.
struct Names {
  std::vector<std::pair<std::string, std::set<std::string>>> metrics;
  std::set<std::string> grouped_by;
};

std::set<std::string> All(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

Names NamesIn(std::string expression) {
  Names names;
  const std::regex grouping(R"(\b(by|without|on|ignoring)\s*\(([^)]*)\))");
  for (std::smatch match; std::regex_search(expression, match, grouping);) {
    names.grouped_by.merge(All(match[2], "([a-zA-Z_]\\w*)"));
    expression = std::string(match.prefix()) + std::string(match.suffix());
  }
  expression = std::regex_replace(expression, std::regex(R"(\[[^\]]*\])"), "");  // Ranges.
  // Matches a word, its label selector, and the parenthesis of a function call.
  const std::regex word(R"(\b([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?(\s*\()?)");
  const std::set<std::string> operators = {"and", "or", "unless", "bool", "offset"};
  for (std::sregex_iterator it(expression.begin(), expression.end(), word), end; it != end; ++it) {
    const std::smatch& match = *it;
    if (match[3].matched || operators.contains(match[1])) continue;
    names.metrics.emplace_back(match[1], All(match[2], R"(([a-zA-Z_]\w*)\s*(?:=|!=|=~|!~)\s*")"));
  }
  return names;
}

void CheckExpressions(const std::vector<Expression>& expressions) {
  const auto series = Series();
  ASSERT_GT(expressions.size(), 10u);
  for (const auto& [where, expression] : expressions) {
    SCOPED_TRACE(where + ": " + expression);
    const Names names = NamesIn(expression);
    EXPECT_FALSE(names.metrics.empty());
    for (const auto& [name, labels] : names.metrics) {
      // svcmap-kube has its own page. It adds its prefix to the metrics that all sources have.
      constexpr absl::string_view kPrefix = "svcmap_kube_";
      if (absl::StartsWith(name, kPrefix)) {
        const std::string page = ReadFile(SVCMAP_SOURCE_DIR "/api/kube/status_pages.cc");
        const std::string of_all = ReadFile(SVCMAP_SOURCE_DIR "/api/source/program.cc");
        const bool exposed =
            page.find("\"" + name + "\"") != std::string::npos ||
            of_all.find("prefix + \"" + name.substr(kPrefix.size()) + "\"") != std::string::npos;
        EXPECT_TRUE(exposed) << name << " is not exposed";
        continue;
      }
      const auto known = series.find(name);
      if (known == series.end()) {
        ADD_FAILURE() << name << " is not exposed";
        continue;
      }
      for (const std::string& label : labels) {
        EXPECT_TRUE(known->second.contains(label)) << name << " has no label " << label;
      }
      for (const std::string& label : names.grouped_by) {
        EXPECT_TRUE(known->second.contains(label)) << name << " has no label " << label;
      }
    }
  }
}

TEST(DashboardTest, ItAsksForWhatIsExposed) { CheckExpressions(DashboardExpressions()); }

TEST(AlertRulesTest, TheyAskForWhatIsExposed) { CheckExpressions(RuleExpressions()); }

TEST(AlertRulesTest, EachHasANameASeverityASummaryADescriptionAndARunbook) {
  const std::string runbook = ReadFile(SVCMAP_SOURCE_DIR "/docs/alerts.md");
  const YAML::Node file = YAML::LoadFile(SVCMAP_SOURCE_DIR "/" + std::string(kRules));
  std::set<std::string> names;
  for (const YAML::Node& rule : file["groups"][0]["rules"]) {
    const auto name = rule["alert"].as<std::string>();
    EXPECT_TRUE(names.insert(name).second) << name;
    const auto severity = rule["labels"]["severity"].as<std::string>();
    EXPECT_TRUE(severity == "critical" || severity == "warning") << name;
    EXPECT_FALSE(rule["annotations"]["summary"].as<std::string>("").empty()) << name;
    EXPECT_FALSE(rule["annotations"]["description"].as<std::string>("").empty()) << name;
    EXPECT_TRUE(absl::EndsWith(rule["annotations"]["runbook_url"].as<std::string>(""),
                               "/docs/alerts.md#" + absl::AsciiStrToLower(name)))
        << name;
    EXPECT_TRUE(absl::StrContains(runbook, "\n## " + name + "\n")) << name;
  }
}

}  // namespace
}  // namespace svcmap::api::test
