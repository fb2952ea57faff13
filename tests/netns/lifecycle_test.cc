// Tests that changes to the tables by other processes and restarts of the agent have little effect
// on traffic.
#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

const Address kOld = ClusterIp(11);

class LifecycleTest : public ServiceTest {
 protected:
  // Applies two Services: "web" stays, and the next controller does not send "old".
  absl::Status Serve() {
    return agent().Apply(Objects{ExternalWeb("shop/web", kWeb), Web("shop/old", kOld)} +
                         WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/old", {&pod_b()}));
  }
  static Objects Next(const Host& endpoint) {
    return Basics() + Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&endpoint});
  }

  // Returns the server that answers a new connection in both families. Returns "" if there is no
  // answer, and "?" if the families differ.
  std::string Answering(const Address& address,
                        std::chrono::milliseconds timeout = Request().timeout) {
    std::string answering[2];
    for (const bool v6 : {false, true}) {
      answering[v6] =
          Ask(client().netns(), {.destination = address.in(v6), .port = 80, .timeout = timeout})
              .server;
    }
    return answering[0] == answering[1] ? answering[0] : "?";
  }
};

TEST_F(LifecycleTest, OtherTablesAreNotModified) {
  ASSERT_OK(Serve());
  ASSERT_OK(RunNft(node().netns(),
                   "table inet firewall {\nset blocked { type ipv4_addr; elements = { 192.0.2.1 } "
                   "}\nchain c { type filter hook forward priority 0; ip saddr @blocked drop; }\n"
                   "}\n"));
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse before, agent().GetStatus());
  ASSERT_OK_AND_ASSIGN(const std::string firewall, Nft(node().netns(), "list table inet firewall"));
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
  ASSERT_OK(RunNft(node().netns(), "delete table ip svcmap\n"));
  EXPECT_OK(Eventually("repair", [&] { return Answering(kWeb) == "remote-pod"; }));
  ASSERT_OK(world()->RestartAgent({}));
  ASSERT_OK(agent().Stop());
  ASSERT_OK(Agent::CleanUp(node().netns()));
  ASSERT_OK_AND_ASSIGN(const std::string left, Nft(node().netns(), "list ruleset"));
  EXPECT_EQ(left, firewall);
  ASSERT_OK(RunNft(node().netns(), "delete table inet firewall\n"));
  ASSERT_OK(Agent::CleanUp(node().netns()));  // --cleanup succeeds even if no tables exist.
  world()->agent.reset();
  ASSERT_OK(world()->RestartAgent({}));
}

// The container of deploy/kubernetes/cleanup stays after the cleanup. It must not prevent the start
// of another svcmapd.
TEST_F(LifecycleTest, CleanupThatStaysLetsAnotherAgentStart) {
  ASSERT_OK(Serve());
  ASSERT_OK(agent().Stop());
  world()->agent.reset();
  ASSERT_OK_AND_ASSIGN(
      const auto cleanup,
      testing::ChildProcess::Start(
          {.argv = {SVCMAP_BIN_DIR "/svcmapd", "--cleanup", "--stay", "--state-dir="},
           .netns = &node().netns()}));
  ASSERT_TRUE(cleanup->WaitForOutput("cleanup complete", std::chrono::seconds(10)));
  ASSERT_OK_AND_ASSIGN(const std::string tables, Nft(node().netns(), "list tables"));
  EXPECT_EQ(tables, "");
  ASSERT_OK(world()->RestartAgent({}));
  ASSERT_OK(cleanup->Signal(SIGTERM));
  const auto exit = cleanup->Wait(std::chrono::seconds(10));
  ASSERT_TRUE(exit);
  EXPECT_TRUE(exit->ok()) << exit->ToString();
}

// After a large response, a thread of gRPC polls for 10 s. svcmapd must not wait for this thread.
TEST_F(LifecycleTest, SigtermAfterALargeResponseEndsTheAgent) {
  Objects objects = Basics();
  for (int i = 0; i < 10000; ++i) {
    objects.push_back(AService(absl::StrCat("shop/many-", i))
                          .ClusterIp(absl::StrCat("10.96.", 64 + i / 250, ".", 1 + i % 250))
                          .Port("http", 80));
  }
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(agent().Replace(objects));
    ASSERT_OK(agent().Dump(v1::DumpRequest::APPLIED).status());
    const auto start = std::chrono::steady_clock::now();
    ASSERT_OK(agent().Stop());
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    world()->agent.reset();
    ASSERT_OK(world()->RestartAgent({}));
  }
  ASSERT_OK(agent().Replace(Basics()));
}

// The parameter is true if the agent is killed, and false if it exits after SIGTERM.
class RestartTest : public LifecycleTest, public ::testing::WithParamInterface<bool> {
 protected:
  absl::Status End() {
    const absl::Status ended = GetParam() ? agent().Kill() : agent().Stop();
    world()->agent.reset();
    return ended;
  }
  absl::Status Begin() {
    absl::StatusOr<std::unique_ptr<Agent>> started = Agent::Start(node().netns());
    if (!started.ok()) return started.status();
    world()->agent = *std::move(started);
    return absl::OkStatus();
  }
  void TearDown() override {
    if (world()->agent == nullptr) {
      ASSERT_OK(Begin());
    }
    ASSERT_OK(agent().Replace(Basics()));
    LifecycleTest::TearDown();
  }
};
INSTANTIATE_TEST_SUITE_P(, RestartTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "SIGKILL" : "SIGTERM";
                         });

TEST_P(RestartTest, S342_TheOldRulesServeUntilTheFirstSnapshotEnds) {
  ASSERT_OK(Serve());
  ASSERT_OK_AND_ASSIGN(TcpFlow flow,
                       TcpFlow::Open(client().netns(), {.destination = kOld.v4, .port = 80}));
  ASSERT_OK(End());
  ASSERT_OK(Begin());
  ASSERT_OK_AND_ASSIGN(v1::GetStatusResponse status, agent().GetStatus());
  EXPECT_EQ(status.state(), v1::WAITING_FOR_STATE);

  ASSERT_OK_AND_ASSIGN(auto stream, agent().Push());
  ASSERT_OK(stream->Begin());
  std::vector<v1::Change> changes;
  for (const v1::Object& object : Next(remote_pod())) changes.push_back(Upsert(object));
  ASSERT_OK_AND_ASSIGN(const v1::Ack held, stream->Batch(changes));
  EXPECT_EQ(held.outcome(), v1::HELD) << held.ShortDebugString();
  EXPECT_EQ(Answering(kWeb), "pod-a");
  EXPECT_EQ(Answering(kOld), "pod-b");

  // The controller disconnects during a snapshot, so svcmapd does not prune or change any object.
  stream.reset();
  EXPECT_EQ(Answering(kWeb), "pod-a");
  EXPECT_EQ(Answering(kOld), "pod-b");

  ASSERT_OK_AND_ASSIGN(stream, agent().Push());
  ASSERT_OK_AND_ASSIGN(const v1::Ack ack, stream->Snapshot(Next(remote_pod())));
  EXPECT_EQ(ack.outcome(), v1::COMMITTED) << ack.ShortDebugString();
  EXPECT_EQ(Answering(kWeb), "remote-pod");
  EXPECT_EQ(Answering(kOld, kShort), "");
  EXPECT_OK(flow.Exchange(100'000));  // S-101: the connection continues.
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

}  // namespace
}  // namespace svcmap::testing
