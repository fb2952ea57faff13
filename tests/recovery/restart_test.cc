// Tests of restarts and crashes with saved state and without a controller. The agent uses the saved
// state immediately, writes only differences, and does not affect clients.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/recovery/recovery_world.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The parameter selects how the agent is stopped.
class UnchangedRestartTest : public SavedStateTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(, UnchangedRestartTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "SIGKILL" : "SIGTERM";
                         });

TEST_P(UnchangedRestartTest, S342_ItServesByItselfAndWritesNothing) {
  const std::vector<std::string> placement = StickyPlacement();
  ASSERT_OK_AND_ASSIGN(TcpFlow flow,
                       TcpFlow::Open(client().netns(), {.destination = kSteady.v4, .port = 80}));
  StartTraffic();
  if (HasFatalFailure()) return;
  const ElementLists before = ReadMarkers();
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse reported, agent().GetStatus());
  for (int restart = 1; restart <= 2; ++restart) {
    SCOPED_TRACE(absl::StrCat("restart ", restart));
    ASSERT_OK(EndAgent(/*kill=*/GetParam()));
    ASSERT_OK(StartAgent());
    ASSERT_OK(WaitUntilServing());
    ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
    EXPECT_EQ(status.elements_written(), 0u) << status.ShortDebugString();
    EXPECT_FALSE(status.has_last_commit()) << status.ShortDebugString();
    EXPECT_TRUE(status.verified()) << status.ShortDebugString();
    EXPECT_EQ(status.revision(), reported.revision());
    EXPECT_EQ(status.service_ports(), reported.service_ports());
    EXPECT_EQ(status.endpoints(), reported.endpoints());
    ASSERT_EQ(status.objects_size(), reported.objects_size());
    for (int i = 0; i < reported.objects_size(); ++i) {
      EXPECT_EQ(status.objects(i).ShortDebugString(), reported.objects(i).ShortDebugString());
    }
    ExpectNoInterruption();
    EXPECT_EQ(ReadMarkers(), before) << agent().log();
    EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
  }
  EXPECT_OK(flow.Exchange(10'000));
  EXPECT_EQ(StickyPlacement(), placement);
  ExpectItGoesOn();
}

TEST_P(UnchangedRestartTest, S342_AControllerThatSaysTheSameChangesNothing) {
  StartTraffic();
  if (HasFatalFailure()) return;
  const ElementLists before = ReadMarkers();
  ASSERT_OK(EndAgent(/*kill=*/GetParam()));
  ASSERT_OK(StartAgent());
  ASSERT_OK_AND_ASSIGN(const auto stream, agent().Push());
  ASSERT_OK_AND_ASSIGN(const v1::Ack ack, stream->Snapshot(Everything()));
  EXPECT_EQ(ack.outcome(), v1::UNCHANGED) << ack.ShortDebugString();
  EXPECT_EQ(ReadMarkers(), before) << agent().log();
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  EXPECT_EQ(status.elements_written(), 0u) << status.ShortDebugString();
  ExpectNoInterruption();
  ExpectItGoesOn();
}

// svcmapd saves changes to single endpoints with their slice, and accepts further changes after a
// restart.
TEST_P(UnchangedRestartTest, SingleEndpointsThatChangedAreKept) {
  const auto replace = [this](const Host& old, const Host& by) -> absl::Status {
    const auto stream = agent().Push();
    if (!stream.ok()) return stream.status();
    const auto ack = (*stream)->Batch({ADelta("shop/single").Remove(old.v4()).Put(by.v4())});
    return ack.ok() ? CheckAck(*ack) : ack.status();
  };
  const auto answering = [this] {
    EXPECT_OK(FlushConntrack(node().netns()));
    return Ask(pod_b().netns(), {.destination = kLate.v4, .port = 80}).server;
  };
  ASSERT_OK(agent().Apply(
      {Web("shop/single", kLate),
       ASlice("shop/single").Named("single").Port("tcp", kPodPort).Endpoint(pod_a().v4())}));
  ASSERT_OK(replace(pod_a(), remote_pod()));
  ASSERT_OK(agent().WaitUntilSaved());
  ASSERT_OK(EndAgent(/*kill=*/GetParam()));
  ASSERT_OK(StartAgent());
  ASSERT_OK(WaitUntilServing());
  EXPECT_EQ(answering(), "remote-pod");
  ASSERT_OK(replace(remote_pod(), pod_a()));
  EXPECT_EQ(answering(), "pod-a");
}

// An agent with other flags or another version replaces the rules in one transaction, and clients
// with session affinity keep their endpoints.
TEST_F(SavedStateTest, S342_AnUpgradeThatChangesTheRulesIsNotNoticed) {
  const std::vector<std::string> placement = StickyPlacement();
  StartTraffic();
  if (HasFatalFailure()) return;
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--masquerade-all"},
           {"--service-counters"},
           {"--answer-ping"},
           {"--answer-ping", "--service-counters"},
           {"--port-ranges"},
           {"--port-ranges", "--service-counters"},
           {"--cluster-cidr", "10.244.0.0/16"},
           // As after updates of the kernel to and from a version that needs repeated lookups.
           {"--repeat-lookups", "on"},
           {"--repeat-lookups", "off"},
           {"--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "veth"},
           {}}) {
    SCOPED_TRACE(flags.empty() ? "the first flags" : flags[0]);
    ASSERT_OK(EndAgent(/*kill=*/false));
    ASSERT_OK(StartAgent(flags));
    ASSERT_OK(WaitUntilServing());
    // The rules are the same as the rules of an agent with these flags in an empty namespace.
    ASSERT_OK_AND_ASSIGN(const NetNs empty, NetNs::Create());
    ASSERT_OK_AND_ASSIGN(const auto fresh, Agent::Start(empty, flags));
    ASSERT_OK(fresh->Replace(Everything()));
    ASSERT_OK_AND_ASSIGN(const Listing listing, ReadListing(empty));
    EXPECT_OK(CheckKernel(agent(), node().netns(), listing.rules));
    ExpectNoInterruption();
    EXPECT_EQ(StickyPlacement(), placement);
  }
  ExpectItGoesOn();
}

TEST_F(SavedStateTest, S342_WithoutAStateFolderTheOldRulesServeUntilItIsReported) {
  StartTraffic();
  if (HasFatalFailure()) return;
  for (int i = 0; i < 2; ++i) {
    world()->agent.reset();
    ASSERT_OK_AND_ASSIGN(world()->agent, Agent::Start(node().netns(), {"--state-dir", ""}));
    ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
    EXPECT_EQ(status.state(), v1::WAITING_FOR_STATE);
    {  // The controller disconnects during a snapshot, so svcmapd changes and prunes no object.
      ASSERT_OK_AND_ASSIGN(const auto stream, agent().Push());
      ASSERT_OK(stream->Begin());
      ASSERT_OK_AND_ASSIGN(const v1::Ack ack, stream->Batch({Upsert(OtherService(0, 81))}));
      EXPECT_EQ(ack.outcome(), v1::HELD) << ack.ShortDebugString();
    }
    ExpectNoInterruption();
  }
  ASSERT_OK(agent().Replace(Everything()));
  ExpectItGoesOn();
}

TEST_F(SavedStateTest, KilledDuringTheFirstSnapshotItWaitsForACompleteState) {
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::vector<std::string> flags = {"--state-dir", folder.path() + "/state"};
  const auto state_of_next_run = [&](std::unique_ptr<Agent>& agent) -> v1::State {
    EXPECT_OK(agent->Kill());
    agent.reset();
    auto next = Agent::Start(netns, flags);
    EXPECT_OK(next);
    if (!next.ok()) return v1::STATE_UNSPECIFIED;
    agent = *std::move(next);
    const auto status = agent->GetStatus();
    EXPECT_OK(status);
    return status.ok() ? status->state() : v1::STATE_UNSPECIFIED;
  };
  ASSERT_OK_AND_ASSIGN(auto agent, Agent::Start(netns, flags));
  ASSERT_OK(agent->WaitUntilSaved());
  EXPECT_EQ(state_of_next_run(agent), v1::WAITING_FOR_STATE);  // It has received nothing.
  {
    ASSERT_OK_AND_ASSIGN(const auto stream, agent->Push());
    ASSERT_OK(stream->Begin());
    const Objects objects = Everything();
    for (size_t i = 0; i < objects.size() / 2; ++i) {
      ASSERT_OK_AND_ASSIGN(const v1::Ack ack, stream->Batch({Upsert(objects[i])}));
      ASSERT_OK(CheckAck(ack));
    }
  }
  EXPECT_EQ(state_of_next_run(agent), v1::WAITING_FOR_STATE);
  EXPECT_EQ(state_of_next_run(agent), v1::WAITING_FOR_STATE);
  ASSERT_OK(agent->Replace(Everything()));
  ASSERT_OK(agent->CheckServing());
  ASSERT_OK(agent->WaitUntilSaved());
  EXPECT_EQ(state_of_next_run(agent), v1::SERVING);
}

// ---- Clean-up ----

TEST_F(SavedStateTest, S330_CleanUpRemovesOurTwoTablesAndNoOthers) {
  const std::string others =
      "table inet svcmap {\n\tset s { type ipv4_addr; elements = { 192.0.2.1 }; }\n"
      "\tchain c { type filter hook forward priority 0; ip saddr @s drop; }\n}\n"
      "table ip svcmap2 {\n\tchain services { }\n}\n"
      "table ip kube-proxy {\n\tchain services { }\n}\n"
      "table bridge svcmap {\n\tchain services { }\n}\n"
      "table ip6 filter {\n\tchain FORWARD { type filter hook forward priority 0; }\n}\n";
  ASSERT_OK_AND_ASSIGN(const NetNs empty, NetNs::Create());
  ASSERT_OK(RunNft(empty, others));
  ASSERT_OK_AND_ASSIGN(const std::string expected, Nft(empty, "list ruleset"));
  ASSERT_OK(RunNft(node().netns(), others));

  // A repair and a restart leave the other tables as they are.
  ASSERT_OK(RunNft(node().netns(), "delete table ip svcmap\n"));
  EXPECT_OK(Eventually("repair", [&] { return agent().GetStatus()->repairs() > 0; }));
  ASSERT_OK(EndAgent(/*kill=*/false));
  ASSERT_OK(StartAgent());
  ASSERT_OK(WaitUntilServing());

  // --cleanup fails while an agent is running, because the agent would restore the tables.
  EXPECT_FALSE(Agent::CleanUp(node().netns()).ok());
  EXPECT_OK(agent().CheckServing());
  ASSERT_OK(EndAgent(/*kill=*/false));
  ASSERT_OK(Agent::CleanUp(node().netns()));
  ASSERT_OK_AND_ASSIGN(const std::string left, Nft(node().netns(), "list ruleset"));
  EXPECT_EQ(left, expected);
  ASSERT_OK(Agent::CleanUp(node().netns()));

  // After the flush, the agent programs all tables again.
  ASSERT_OK(RunNft(node().netns(), "flush ruleset\n"));
  ASSERT_OK(StartAgent());
  ASSERT_OK(WaitUntilServing());
  EXPECT_OK(WaitUntilTheKernelIsAsWanted());
  StartTraffic();
  ExpectNoInterruption();
}

// Kills the agent at random moments under traffic and updates. A third of the restarted agents has
// only its saved state, and a third has only a controller. Then the kernel has the accepted state,
// and no connection to an unchanged Service fails.
//
// SVCMAP_CRASHES=1000 sets the number of crashes (default: 20).
// SVCMAP_SEED=17 sets the seed for the moments, changes and controller actions (default: random).

constexpr int kOtherServices = 200;
constexpr int kEndpointsEach = 3;
constexpr milliseconds kBetweenChanges{2};

// A controller that changes the "other" Services at full speed and records acknowledged versions.
// Each change sets the port of a Service to its version, so that elements in the kernel show their
// version.
class Controller {
 public:
  explicit Controller(uint64_t seed)
      : random_(seed), sent_(kOtherServices, 0), acked_(kOtherServices, 0) {}

  // Sends a snapshot that contains new versions of all "other" Services.
  absl::Status Snapshot(Agent& agent, const Objects& constant) {
    const absl::StatusOr<std::unique_ptr<PushStream>> stream = agent.Push();
    if (!stream.ok()) return stream.status();
    const absl::StatusOr<v1::Ack> ack = Snapshot(**stream, constant);
    return ack.ok() ? CheckAck(*ack) : ack.status();
  }

  // Sends changes, sometimes after a snapshot, until the agent exits or `stop` is set. Returns an
  // error for an unexpected answer.
  absl::Status Churn(Agent& agent, const Objects& constant, const std::atomic<bool>& stop) {
    const absl::StatusOr<std::unique_ptr<PushStream>> stream = agent.Push();
    if (!stream.ok()) return absl::OkStatus();
    if (Below(3) == 0) {
      const absl::StatusOr<v1::Ack> ack = Snapshot(**stream, constant);
      if (!ack.ok()) return absl::OkStatus();
      if (absl::Status status = CheckAck(*ack); !status.ok()) return status;
    }
    auto next = steady_clock::now();
    while (!stop) {
      std::vector<v1::Change> changes;
      std::vector<size_t> changed;
      const int count = 1 + Below(3);
      for (int i = 0; i < count; ++i) {
        const int service = Below(kOtherServices);
        Upgrade(service);
        changed.push_back(static_cast<size_t>(service));
        for (const v1::Object& object : ObjectsOf(service)) changes.push_back(Upsert(object));
      }
      const absl::StatusOr<v1::Ack> ack = (*stream)->Batch(changes);
      if (!ack.ok()) return absl::OkStatus();
      if (absl::Status status = CheckAck(*ack); !status.ok()) return status;
      for (const size_t service : changed) acked_[service] = sent_[service];
      ++batches_;
      next = std::max(next + kBetweenChanges, steady_clock::now() - kBetweenChanges);
      std::this_thread::sleep_until(next);
    }
    return absl::OkStatus();
  }

  // Checks the version of every Service in the kernel. The version must have been sent, and must
  // not be older than the acknowledged version.
  absl::Status CheckVersions(const ElementLists& elements) const {
    std::vector<int> found(kOtherServices, -1);
    const auto list = elements.find("ip svcmap service-ips");
    for (const std::string& element :
         list == elements.end() ? std::set<std::string>() : list->second) {
      // The port of an element such as "10.96.1.5 . tcp . 1017 comment "other/s4:p" : 3.0.0.9" is
      // the version.
      const std::string port_text = " . tcp . ";
      const std::string name_text = "comment \"other/s";
      const size_t port_at = element.find(port_text);
      const size_t name_at = element.find(name_text);
      if (port_at == std::string::npos || name_at == std::string::npos) continue;
      const int port = std::atoi(element.c_str() + port_at + port_text.size());
      const int service = std::atoi(element.c_str() + name_at + name_text.size());
      if (service < kOtherServices) found[static_cast<size_t>(service)] = port - kFirstPort;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] < acked_[i] || found[i] > sent_[i]) {
        return absl::DataLossError(absl::StrCat("other/s", i, " is in version ", found[i],
                                                ", sent was ", sent_[i], ", answered for ",
                                                acked_[i]));
      }
    }
    return absl::OkStatus();
  }

  int64_t batches() const { return batches_; }

 private:
  absl::StatusOr<v1::Ack> Snapshot(PushStream& stream, Objects objects) {
    for (int i = 0; i < kOtherServices; ++i) {
      Upgrade(i);
      for (v1::Object& object : ObjectsOf(i)) objects.push_back(std::move(object));
    }
    absl::StatusOr<v1::Ack> ack = stream.Snapshot(objects);
    if (ack.ok() && CheckAck(*ack).ok()) acked_ = sent_;
    return ack;
  }

  static constexpr int kFirstPort = 1000;

  int Below(int limit) { return std::uniform_int_distribution<>(0, limit - 1)(random_); }
  void Upgrade(int service) { ++sent_[static_cast<size_t>(service)]; }
  Objects ObjectsOf(int service) {
    return Objects{OtherService(service, kFirstPort + sent_[static_cast<size_t>(service)])} +
           OtherSlices(service, 1 + Below(kEndpointsEach));
  }

  std::mt19937_64 random_;
  std::vector<int> sent_;  // The last sent version of each Service.
  std::vector<int> acked_;
  int64_t batches_ = 0;
};

class CrashTest : public RecoveryTest {
 protected:
  void SetUp() override {
    RecoveryTest::SetUp();
    if (HasFatalFailure()) return;
    constant_ = Basics() + SteadyServices(*world());
  }
  Objects constant_;  // Objects that do not change.
};

TEST_F(CrashTest, S332_S342_KilledAtAnyMomentItComesBackAndThereIsNoInterruption) {
  const int64_t crashes = NumberFromEnvironment("SVCMAP_CRASHES", 20);
  const auto seed = static_cast<uint64_t>(
      NumberFromEnvironment("SVCMAP_SEED", static_cast<int64_t>(std::random_device{}())));
  SCOPED_TRACE(absl::StrCat("SVCMAP_SEED=", seed));
  std::mt19937_64 random(seed);
  const auto below = [&](int limit) {
    return std::uniform_int_distribution<>(0, limit - 1)(random);
  };
  Controller controller(seed + 1);
  ASSERT_OK(controller.Snapshot(agent(), constant_));
  RememberRules();
  if (HasFatalFailure()) return;
  ASSERT_OK_AND_ASSIGN(const auto traffic,
                       SteadyTraffic::Start(client().netns(), SteadyTargets(*world())));
  int alone = 0;
  int early = 0;
  int without_state = 0;
  for (int64_t crash = 1; crash <= crashes; ++crash) {
    SCOPED_TRACE(absl::StrCat("crash ", crash));
    {
      std::atomic<bool> stop = false;
      absl::Status churned;
      std::thread churn([&] { churned = controller.Churn(agent(), constant_, stop); });
      std::this_thread::sleep_for(std::chrono::microseconds(below(100'000)));
      const absl::Status killed = agent().Kill();
      stop = true;
      churn.join();
      ASSERT_OK(killed);
      ASSERT_OK(churned) << agent().log();
      world()->agent.reset();
    }
    const int what = below(3);
    if (what == 1) {
      ++without_state;
      std::filesystem::remove_all(state_folder());
    }
    // Some runs of the agent last at most 100 ms.
    while (below(4) == 0) {
      ++early;
      ASSERT_OK_AND_ASSIGN(const auto short_lived, Agent::Launch(node().netns(), Flags()));
      std::this_thread::sleep_for(std::chrono::microseconds(below(100'000)));
      ASSERT_OK(short_lived->Kill());
    }
    ASSERT_OK(StartAgent());
    if (what == 0) {
      ++alone;
    } else {
      ASSERT_OK(controller.Snapshot(agent(), constant_));
    }
    ASSERT_OK(WaitUntilServing());
    ASSERT_OK(WaitUntilTheKernelIsAsWanted()) << agent().log();
    ASSERT_OK_AND_ASSIGN(const ElementLists wanted, ReadDump(agent(), v1::DumpRequest::DESIRED));
    ASSERT_OK(controller.CheckVersions(wanted)) << agent().log();
    ASSERT_OK(traffic->Go(20));
    ASSERT_EQ(traffic->Report().failures(), 0) << traffic->Report().ToString() << agent().log();
  }
  const TrafficReport report = traffic->Stop();
  EXPECT_OK(report.Check());
  std::cout << crashes << " crashes and " << early << " at the start, " << alone
            << " without a controller afterwards, " << without_state
            << " with an empty state directory; " << controller.batches() << " batches\n"
            << report.ToString();
}

}  // namespace
}  // namespace svcmap::testing
