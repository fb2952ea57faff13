// Tests of the metrics server over real sockets (S-267, S-268).
#include "api/metrics/server.h"

#include <atomic>
#include <thread>

#include "tests/contract/private_netns.h"
#include "tests/metrics/metrics_world.h"
#include "tests/support/raw_http.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::api::test {
namespace {

using ::svcmap::testing::HttpAnswer;
using ::svcmap::testing::HttpRequest;
using ::svcmap::testing::RawConnection;
using ::svcmap::testing::WaitUntil;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Pair;

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
