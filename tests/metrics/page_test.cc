// Tests of the samples of /metrics and of the bytes of /metrics/slis.
#include <unistd.h>

#include <sstream>

#include "api/metrics/families.h"
#include "nft/base/unique_fd.h"
#include "tests/metrics/metrics_world.h"

namespace svcmap::api::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Outcome = proxy::SyncResult::Outcome;

// Returns the lines that neither start with `start` nor contain `part`.
std::string WithoutLines(const std::string& text, const std::string& start,
                         const std::string& part) {
  std::istringstream lines(text);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(start) || line.find(part) != std::string::npos) continue;
    rest += line + "\n";
  }
  return rest;
}

class MetricsPageTest : public ::testing::Test {
 protected:
  std::string Page() const { return MetricsText(SomeFacts(), SomeConstants(), observations_); }

  Observations observations_;
};

TEST_F(MetricsPageTest, S269_S285_S288_ThePageIsTheOneInTheFile) {
  observations_.Synced(ASync(milliseconds(3), milliseconds(2), Outcome::kCommitted));
  observations_.Synced(
      {.programmed = {{Family::kIpv4, milliseconds(400)}, {Family::kIpv6, seconds(61)}}});
  observations_.Cleaned({.duration = milliseconds(5)});
  observations_.Answered("/healthz", 200);
  observations_.Answered("/livez", 503);
  std::string page = Page();
  // The test replaces the time of the last sync, which is the only value that the test cannot set.
  const std::string last = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"";
  for (size_t at = 0; (at = page.find(last, at)) != std::string::npos; ++at) {
    const size_t value = page.find("} ", at) + 2;
    page.replace(value, page.find('\n', value) - value, "NOW");
  }
  // CatalogueTest and BucketsTest check the names, types, help strings and bounds of the buckets.
  ExpectFile("tests/metrics/golden/metrics.txt", WithoutLines(page, "# ", "_bucket{"));
}

TEST_F(MetricsPageTest, S267_TheSliPageIsTheOneInTheFile) {
  for (const int code : {200, 200, 503}) observations_.Answered("/livez", code);
  observations_.Answered("/healthz", 503);
  ExpectFile("tests/metrics/golden/slis.txt", SliText(SomeFacts(), observations_));
}

TEST_F(MetricsPageTest, S269_S270_S271_AttemptsAreFullOrPartialAndFailuresCount) {
  observations_.Synced(ASync(milliseconds(9), milliseconds(8), Outcome::kCommitted, true));
  observations_.Synced(ASync(milliseconds(3), milliseconds(2), Outcome::kFailed));
  observations_.Synced(ASync(milliseconds(1), milliseconds(0), Outcome::kNothing));
  observations_.Synced(ASync(milliseconds(0), milliseconds(0), Outcome::kNothing));
  const std::string page = Page();
  for (const char* family : {"IPv4", "IPv6"}) {
    const std::string labels = std::string("_count{ip_family=\"") + family + "\"} ";
    EXPECT_THAT(page, HasSubstr("kubeproxy_sync_proxy_rules_duration_seconds" + labels + "3\n"));
    EXPECT_THAT(page,
                HasSubstr("kubeproxy_sync_full_proxy_rules_duration_seconds" + labels + "1\n"));
    EXPECT_THAT(page,
                HasSubstr("kubeproxy_sync_partial_proxy_rules_duration_seconds" + labels + "2\n"));
  }
  EXPECT_THAT(page, HasSubstr("svcmap_commit_duration_seconds_count 1\n"));
}

TEST_F(MetricsPageTest, S272_TheLastSyncIsTheLastThatSucceeded) {
  const std::string none =
      "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} 0\n";
  observations_.Synced(ASync(milliseconds(3), milliseconds(2), Outcome::kFailed));
  EXPECT_THAT(Page(), HasSubstr(none));
  observations_.Synced(ASync(milliseconds(1), milliseconds(0), Outcome::kNothing));
  EXPECT_THAT(Page(), Not(HasSubstr(none)));
}

TEST_F(MetricsPageTest, S282_ACleanupWithoutAListIsNotObserved) {
  observations_.Cleaned({.duration = milliseconds(5), .error = absl::InternalError("no list")});
  EXPECT_THAT(
      Page(),
      HasSubstr(
          "kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family=\"IPv4\"} 0"));
}

TEST_F(MetricsPageTest, S284_S285_OtherPathsDoNotCount) {
  observations_.Answered("/", 404);
  EXPECT_THAT(Page(), HasSubstr("kubeproxy_proxy_healthz_total{code=\"200\"} 0\n"));
  EXPECT_THAT(Page(), HasSubstr("kubeproxy_proxy_healthz_total{code=\"503\"} 0\n"));
}

TEST_F(MetricsPageTest, WhatThereIsNotIsNotExposed) {
  MetricsFacts facts = SomeFacts();
  facts.saved.reset();
  facts.controller->since.reset();
  std::string page = MetricsText(facts, SomeConstants(), observations_);
  EXPECT_THAT(page, Not(HasSubstr("svcmap_saved_state")));
  EXPECT_THAT(page, HasSubstr("svcmap_controller_connected 0\n"));
  EXPECT_THAT(page, Not(HasSubstr("svcmap_controller_since")));
  facts.controller.reset();  // An agent with --manifests has no controller.
  EXPECT_THAT(MetricsText(facts, SomeConstants(), observations_),
              Not(HasSubstr("svcmap_controller")));
}

TEST(ProcessFiguresTest, TheyAreThoseOfThisProcess) {
  const ProcessFigures figures = ReadProcessFigures();
  EXPECT_GT(figures.resident_bytes, 1u << 20);
  EXPECT_GT(figures.virtual_bytes, figures.resident_bytes);
  EXPECT_GE(figures.open_fds, 3u);
  EXPECT_GT(figures.max_fds, figures.open_fds);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(figures.start_time, now, 600);
  const UniqueFd one_more(dup(0));
  EXPECT_EQ(ReadProcessFigures().open_fds, figures.open_fds + 1);
}

}  // namespace
}  // namespace svcmap::api::test
