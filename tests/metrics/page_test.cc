// Tests of the samples of /metrics, of the bytes of /metrics/slis, and of the server.
#include <unistd.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "api/metrics/families.h"
#include "api/metrics/server.h"
#include "nft/base/unique_fd.h"
#include "tests/contract/private_netns.h"
#include "tests/metrics/metrics_world.h"
#include "tests/support/raw_http.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::api::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Outcome = proxy::SyncResult::Outcome;
using ::svcmap::testing::HttpAnswer;
using ::svcmap::testing::HttpRequest;
using ::svcmap::testing::RawConnection;
using ::svcmap::testing::WaitUntil;
using ::testing::IsSupersetOf;
using ::testing::Pair;

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

// Tests of the metrics server over real sockets (S-267, S-268).

constexpr uint16_t kMetricsPort = 10249;
constexpr char kLocalV4[] = "127.0.0.1";

class MetricsServerTest : public ::testing::Test {
 protected:
  void SetUp() override { svcmap::testing::MakePrivateNetNs(netns_); }

  absl::Status Start(PageServerOptions options = {}, const std::string& at = "127.0.0.1") {
    options.bind_address = *BindAddress::Parse(at, kMetricsPort);
    const auto facts = [this] {
      ++scrapes_;
      return SomeFacts();
    };
    auto server = netns_->Run([&] {
      return StartMetricsServer(std::move(options), facts, SomeConstants(), observations_);
    });
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    return absl::OkStatus();
  }
  absl::StatusOr<HttpAnswer> Ask(const std::string& path, const std::string& method = "GET",
                                 const std::string& ip = kLocalV4) {
    return HttpRequest(*netns_, ip, kMetricsPort, path, method);
  }

  std::optional<svcmap::testing::NetNs> netns_;
  Observations observations_;
  std::atomic<int> scrapes_ = 0;
  std::unique_ptr<PageServer> server_;
};

TEST_F(MetricsServerTest, S267_EachPathHasItsPageAndType) {
  ASSERT_OK(Start({.pages = {{"/configz", [] { return JsonPage("{}"); }}}}));
  const struct {
    const char* path;
    const char* type;
    std::string body;
  } pages[] = {
      {"/metrics", "text/plain; version=0.0.4; charset=utf-8",
       MetricsText(SomeFacts(), SomeConstants(), observations_)},
      {"/metrics?name[]=x", "text/plain; version=0.0.4; charset=utf-8",
       MetricsText(SomeFacts(), SomeConstants(), observations_)},
      {"/metrics/slis", "text/plain; version=0.0.4; charset=utf-8",
       SliText(SomeFacts(), observations_)},
      {"/healthz", "text/plain; charset=utf-8", "ok"},
      {"/proxyMode", "text/plain; charset=utf-8", "nftables"},
      {"/configz", "application/json", "{}"},
  };
  for (const auto& page : pages) {
    ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask(page.path));
    EXPECT_EQ(answer.code, 200) << page.path;
    EXPECT_THAT(answer.headers, IsSupersetOf({Pair("Content-Type", page.type),
                                              Pair("X-Content-Type-Options", "nosniff")}))
        << page.path;
    EXPECT_EQ(answer.body, page.body) << page.path;
  }
}

TEST_F(MetricsServerTest, S267_StatuszSaysWhatRunsAndWhatThereIs) {
  ASSERT_OK(Start({.pages = {{"/configz", [] { return JsonPage("{}"); }}}}));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask("/statusz"));
  EXPECT_THAT(answer.body, HasSubstr("svcmapd statusz\n\nStarted: Thu Jan  1 00:00:00 UTC 1970\n"));
  EXPECT_THAT(
      answer.body,
      HasSubstr("\nBinary version: 1.2.3\nPaths: /healthz /metrics /metrics/slis /proxyMode "
                "/statusz /configz\n"));
}

TEST_F(MetricsServerTest, S267_OtherPathsAreNotFoundAndProfilingIsOne) {
  ASSERT_OK(Start());
  for (const char* path : {"/", "/livez", "/metrics/", "/configz", "/debug/pprof/",
                           "/debug/pprof/profile", "/debug/flags/v"}) {
    ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask(path));
    EXPECT_EQ(answer.code, 404) << path;
  }
  EXPECT_EQ(scrapes_, 0);
}

// The page does not fit into the socket buffers.
TEST_F(MetricsServerTest, AClientThatDoesNotReadIsDisconnected) {
  const auto page = std::make_shared<const std::string>(size_t{32} << 20, 'x');
  const auto answer_with_page = [&page] {
    Answer answer = TextPage("");
    answer.shared_body = page;
    return answer;
  };
  ASSERT_OK(Start({.pages = {{"/large", answer_with_page}}, .patience = milliseconds(500)}));
  auto connection = RawConnection::Open(*netns_, kLocalV4, kMetricsPort);
  ASSERT_OK(connection);
  std::string requests;
  for (int i = 0; i < 50; ++i) requests += "GET /large HTTP/1.1\r\nHost: node\r\n\r\n";
  ASSERT_OK(connection->Send(requests));
  EXPECT_TRUE(WaitUntil([&] { return page.use_count() > 1; }));
  EXPECT_LE(page.use_count(), 2) << "only the first response is being sent";
  EXPECT_TRUE(WaitUntil([&] { return page.use_count() == 1; })) << "the connection is open";
  EXPECT_OK(connection->WaitForEnd());
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask("/healthz"));
  EXPECT_EQ(answer.body, "ok");
}

// Each rendering counts as at least 10 ms of CPU time. The limit is a burst of 200 ms, and then 100
// ms per second.
TEST_F(MetricsServerTest, FrequentScrapesShareARecentPage) {
  ASSERT_OK(Start());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask("/metrics"));
    ASSERT_EQ(answer.body, MetricsText(SomeFacts(), SomeConstants(), observations_));
  }
  const auto intervals = (std::chrono::steady_clock::now() - begin) / milliseconds(100);
  EXPECT_LE(scrapes_, 20 + intervals + 1);
  EXPECT_GE(scrapes_, 1 + intervals / 10);
  const int before = scrapes_;
  EXPECT_TRUE(WaitUntil([&] { return Ask("/metrics").ok() && scrapes_ > before; }))
      << "the page is older than 100 ms";
}

// Scrapes and concurrent updates do not block each other, and each value on a page is consistent.
TEST_F(MetricsServerTest, ScrapesAndObservationsDoNotDisturbEachOther) {
  ASSERT_OK(Start());
  std::atomic<bool> done = false;
  std::thread observer([&] {
    while (!done) {
      observations_.Synced(
          ASync(milliseconds(3), milliseconds(2), proxy::SyncResult::Outcome::kCommitted));
      observations_.Synced({.programmed = {{Family::kIpv4, seconds(1)}}});
    }
  });
  for (int i = 0; i < 20; ++i) {
    const absl::StatusOr<HttpAnswer> answer = Ask("/metrics");
    EXPECT_OK(answer);
    if (!answer.ok()) break;
    const auto value = [&](const std::string& sample) {
      const size_t at = answer->body.find(sample + " ");
      return std::stod(answer->body.substr(at + sample.size() + 1));
    };
    const std::string name = "kubeproxy_network_programming_duration_seconds";
    EXPECT_EQ(value(name + "_count{ip_family=\"IPv4\"}"),
              value(name + "_bucket{ip_family=\"IPv4\",le=\"1\"}"));
  }
  done = true;
  observer.join();
}

}  // namespace
}  // namespace svcmap::api::test
