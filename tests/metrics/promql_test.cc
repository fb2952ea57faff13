// Tests that the dashboard and the alerts use only metrics and labels that svcmapd exposes.
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "api/metrics/families.h"
#include "tests/metrics/metrics_world.h"

namespace svcmap::api::test {
namespace {

using prometheus::MetricType;

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
            of_all.find("name(\"" + name.substr(kPrefix.size()) + "\")") != std::string::npos;
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
