// Tests svcmap-etcd with an etcd that is full, slow or dead, with objects that are too large, and
// with steps of the system clock.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <chrono>

#include "absl/strings/str_split.h"
#include "api/manifests/manifests.h"
#include "tests/etcd/etcd_world.h"
#include "tests/support/shim_clock.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr uint16_t kSecondProxyPort = 2376;

class FailuresTest : public EtcdTest {
 protected:
  absl::Status UntilMetricIsAtLeast(const std::string& name, uint64_t value) {
    return Eventually(absl::StrCat(name, " of at least ", value),
                      [&] { return Metric(name) >= value; });
  }

  // svcmap-etcd makes a new connection only after a failure or a silence.
  void CheckConnections() {
    const int accepted = proxy_->accepted();
    EXPECT_LE(accepted, 1 + Metric("failures_total") + Metric("silences_total"));
  }
};

TEST_F(FailuresTest, AFullEtcdKeepsTheRules) {
  constexpr char kFull[] = "etcdserver: mvcc: database space exceeded";
  ASSERT_OK(RestartEtcd({"--quota-backend-bytes=2097152"}));
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--status-prefix", kStatusPrefix}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK_AND_ASSIGN(const CommandResult reached, FleetWait(writer_->seq()));
  ASSERT_TRUE(reached.exit.ok()) << reached.err;

  // The earlier versions of a key fill the database. etcd checks its size only after each interval
  // of commits, so the number of writes depends on the speed of the machine.
  absl::Status status;
  for (int i = 0; i < 500 && status.ok(); ++i) {
    status = writer_->Write({{"/filler", std::string(500'000, 'x')}});
  }
  ASSERT_EQ(status.message(), kFull);
  // etcd applies the transaction that exceeds the limit, although it returns an error.
  ASSERT_OK(writer_->Adopt());
  ASSERT_OK_AND_ASSIGN(const CommandResult applied,
                       FleetApply(api::ManifestYaml({Web(1, "10.96.99.1")})));
  EXPECT_EQ(applied.exit.code, 4);
  EXPECT_THAT(applied.err, HasSubstr(kFull));
  ASSERT_OK_AND_ASSIGN(const CommandResult waited, FleetWait(writer_->seq()));
  EXPECT_EQ(waited.exit.code, 4);
  EXPECT_THAT(waited.err, HasSubstr(kFull));

  // The status of the node changes, but cannot be written.
  ASSERT_OK(agent_->Kill());
  ASSERT_TRUE(Logged(absl::StrCat("writing the status failed, retrying key=", kStatusPrefix,
                                  "/nodes/n1 error=\"127.0.0.1:2378: ", kFull, "\"")));
  EXPECT_GE(Metric("status_failures_total"), 1u);
  agent_.reset();
  ASSERT_OK(StartAgent());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  EXPECT_OK(UntilMetric("failures_total", 0));
  ASSERT_OK_AND_ASSIGN(const CommandResult shown,
                       Fleet({"status", "--status-prefix", kStatusPrefix}));
  EXPECT_THAT(shown.out, HasSubstr("up to date         1\n"));

  // etcd may have applied a failed write after the writer has read the head.
  ASSERT_OK_AND_ASSIGN(const std::string etcd,
                       etcd_->Control({"endpoint", "status", "-w", "json"}));
  const int64_t revision = nlohmann::json::parse(etcd)[0]["Status"]["header"]["revision"];
  ASSERT_OK(etcd_->Control({"compact", "--physical", absl::StrCat(revision)}));
  ASSERT_OK(etcd_->Control({"defrag"}));
  ASSERT_OK(etcd_->Control({"alarm", "disarm"}));
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK_AND_ASSIGN(const CommandResult again, FleetWait(writer_->seq()));
  EXPECT_TRUE(again.exit.ok()) << again.err;
  // Only the first failure is logged.
  const std::vector<std::string> logged =
      absl::StrSplit(source_->err(), "writing the status failed");
  EXPECT_EQ(logged.size(), 2u) << source_->err();
}

TEST_F(FailuresTest, AnObjectThatIsTooLargeIsNamedAndDoesNotStopOthers) {
  ASSERT_OK(RestartEtcd({"--max-request-bytes=8388608"}));
  ASSERT_OK(agent_->Stop());
  agent_.reset();
  ASSERT_OK(StartAgent({"--max-batch-bytes=65536"}));
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());

  // svcmapd does not use this label, so svcmap-etcd does not send it.
  v1::Object labeled = Slice(1, "10.244.2.9");
  auto& labels = *labeled.mutable_endpoint_slice()->mutable_metadata()->mutable_labels();
  labels["example.com/large"] = std::string(5'000'000, 'x');
  ASlice endpoints = ASlice("shop/s2").Named("s2").Port("tcp", 8080);
  for (int n = 0; n < 900; ++n) {
    endpoints.Endpoint(absl::StrCat("10.244.", n / 250, ".", 1 + n % 250), std::string(90, 'n'));
  }
  const v1::Object large = endpoints;
  ASSERT_OK(writer_->Write({{EtcdKey(labeled), EtcdValue(labeled)},
                            {EtcdKey(large), EtcdValue(large)},
                            {WebKey(0), EtcdValue(Web(0, "10.96.99.1"))}}));
  Expect({Slice(1, "10.244.2.9"), Web(0, "10.96.99.1")});
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("refused_objects", 1));
  EXPECT_THAT(source_->err(), HasSubstr("EndpointSlice shop/s2 not sent: Too long: "));
  EXPECT_THAT(source_->err(),
              HasSubstr("must have at most 65536 bytes (--max-batch-bytes of svcmapd)"));

  // The earlier version also stays in effect after a snapshot.
  ASSERT_OK(StopSource());
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  EXPECT_OK(UntilMetric("refused_objects", 1));
  EXPECT_OK(UntilSynced());
  ASSERT_OK(Put({Slice(2, "10.244.2.1")}));
  EXPECT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("refused_objects", 0));
}

TEST_F(FailuresTest, ASlowEtcdCausesFewConnections) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--silence=3"}));
  ASSERT_OK(UntilSynced());
  proxy_->Delay(1s);  // An answer takes 2 s.
  for (int n = 0; n < 3; ++n) {
    ASSERT_OK(Put({Web(1, Ip(1000 + n))}));
    ASSERT_OK(UntilSynced());
  }
  CheckConnections();
  proxy_->Delay(10s);  // Each request times out.
  ASSERT_OK(UntilMetricIsAtLeast("failures_total", Metric("failures_total") + 3));
  CheckConnections();
  proxy_->Delay(0s);
  ASSERT_OK(Put({Web(1, Ip(2000))}));
  EXPECT_OK(UntilSynced());
  CheckConnections();
}

// The other proxy stands for another member.
TEST_F(FailuresTest, ADeadProxyDelaysChangesByAtMostTheSilence) {
  ASSERT_OK_AND_ASSIGN(const auto other, TcpProxy::Start(*netns_, kSecondProxyPort, kEtcdPort));
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(
      StartSource({"--silence=3", absl::StrCat("--etcd-endpoints=http://127.0.0.1:", kProxyPort,
                                               ",http://127.0.0.1:", kSecondProxyPort)}));
  ASSERT_OK(UntilSynced());
  ASSERT_EQ(proxy_->accepted() + other->accepted(), 1);
  (proxy_->accepted() == 1 ? proxy_ : other)->Delay(1h);
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  const auto written = std::chrono::steady_clock::now();
  ASSERT_OK(UntilSynced());
  EXPECT_LT(std::chrono::steady_clock::now() - written, OnThisMachine(3s + 10s));
  EXPECT_OK(UntilMetric("gaps_total", 1));
}

TEST_F(FailuresTest, StepsOfTheSystemClockHaveNoEffect) {
  ASSERT_OK_AND_ASSIGN(const auto clock, ShimClock::Make(folder_->path()));
  source_environment_ = clock->environment();
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  for (const auto step : {1h, -2h, 1h}) {
    clock->Step(step);
    ASSERT_OK(Put({Web(1, Ip(1000 + static_cast<int>(step.count())))}));
    ASSERT_OK(UntilSynced());
  }
  EXPECT_OK(UntilMetric("watches_total", 1));
  EXPECT_OK(UntilMetric("failures_total", 0));
  EXPECT_OK(UntilMetric("silences_total", 0));
}

TEST_F(FailuresTest, ADeadEtcdIsDetectedAfterTheClockWasSetBack) {
  ASSERT_OK_AND_ASSIGN(const auto clock, ShimClock::Make(folder_->path()));
  source_environment_ = clock->environment();
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--silence=2"}));
  ASSERT_OK(UntilSynced());
  proxy_->Delay(1h);
  ASSERT_OK(UntilMetricIsAtLeast("silences_total", 1));  // The head is read now.
  clock->Step(-1h);
  ASSERT_TRUE(Logged("reading from etcd failed"));
  proxy_->Delay(0s);
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  EXPECT_OK(UntilSynced());
}

}  // namespace
}  // namespace svcmap::testing
