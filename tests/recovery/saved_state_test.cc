// A restart on the state that was saved, without a controller: it serves at once, writes nothing
// that has not changed, and nobody notices. And what happens when that state cannot be had.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "nft/netlink/netlink_kernel.h"
#include "tests/recovery/recovery_world.h"
#include "tests/support/mount_ns.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

constexpr int kOthers = 60;
constexpr int kEndpoints = 5;
const Address kOther = ClusterIp(20);  // Of a Service that comes later.

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class SavedStateTest : public RecoveryTest {
 protected:
  // What tells whether somebody has written.
  struct KernelState {
    uint32_t generation = 0;
    ElementLists markers;
    friend bool operator==(const KernelState&, const KernelState&) = default;
    friend std::ostream& operator<<(std::ostream& out, const KernelState& state) {
      out << "generation " << state.generation;
      for (const auto& [set, elements] : state.markers) out << ", " << *elements.begin();
      return out;
    }
  };

  void SetUp() override {
    RecoveryTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(agent().Replace(Everything()));
    RememberRules();
  }

  void TearDown() override {
    traffic_.reset();  // The tables go.
    RecoveryTest::TearDown();
  }

  Objects Everything() {
    return Basics() + SteadyServices(*world()) + OtherServices(kOthers, kEndpoints);
  }

  void StartTraffic() {
    ASSERT_OK_AND_ASSIGN(traffic_, SteadyTraffic::Start(client().netns(), SteadyTargets(*world())));
  }
  // Nothing has failed since StartTraffic, and it goes on.
  void ExpectNobodyNoticed() {
    EXPECT_OK(traffic_->Go(40));
    EXPECT_OK(traffic_->Report().Check()) << agent().log();
  }

  KernelState ReadKernelState() {
    KernelState state;
    const auto kernel = node().netns().Run([] { return nft::NetlinkKernel::Open({}); });
    EXPECT_OK(kernel);
    const absl::StatusOr<Listing> listing = ReadListing(node().netns());
    EXPECT_OK(listing);
    if (!kernel.ok() || !listing.ok()) return state;
    const absl::StatusOr<uint32_t> generation = (*kernel)->Generation();
    EXPECT_OK(generation);
    state.generation = generation.value_or(0);
    for (const auto& [set, elements] : listing->elements) {
      if (set.ends_with(" marker")) state.markers[set] = elements;
    }
    EXPECT_EQ(state.markers.size(), 2u);
    return state;
  }

  // Served by a pod, as it was told after a restart.
  void ExpectItGoesOn() {
    ASSERT_OK(
        agent().Apply(Objects{Web("shop/late", kOther)} + WebSlices("shop/late", {&pod_b()})));
    for (const bool v6 : {false, true}) {
      EXPECT_ANSWERED_BY(Ask(pod_a().netns(), {.destination = kOther.in(v6), .port = 80}), "pod-b",
                         pod_a().address(v6));
    }
    EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
  }

  std::unique_ptr<SteadyTraffic> traffic_;
};

// By how the agent ended.
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
  const KernelState before = ReadKernelState();
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse told, agent().GetStatus());
  ASSERT_OK(agent().WaitUntilSaved());
  for (int restart = 1; restart <= 3; ++restart) {
    SCOPED_TRACE(absl::StrCat("restart ", restart));
    ASSERT_OK(EndAgent(/*kill=*/GetParam()));
    ASSERT_OK(StartAgent());
    ASSERT_OK(WaitUntilServing());
    ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
    EXPECT_EQ(status.elements_written(), 0u) << status.ShortDebugString();
    EXPECT_FALSE(status.has_last_commit()) << status.ShortDebugString();
    EXPECT_TRUE(status.verified()) << status.ShortDebugString();
    EXPECT_EQ(status.revision(), told.revision());
    EXPECT_EQ(status.service_ports(), told.service_ports());
    EXPECT_EQ(status.endpoints(), told.endpoints());
    ASSERT_EQ(status.objects_size(), told.objects_size());
    for (int i = 0; i < told.objects_size(); ++i) {
      EXPECT_EQ(status.objects(i).ShortDebugString(), told.objects(i).ShortDebugString());
    }
    ExpectNobodyNoticed();
    EXPECT_EQ(ReadKernelState(), before) << agent().log();
    EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
  }
  EXPECT_OK(flow.Exchange(10'000));
  EXPECT_EQ(StickyPlacement(), placement);
  ExpectItGoesOn();
}

TEST_P(UnchangedRestartTest, S342_AControllerThatSaysTheSameChangesNothing) {
  StartTraffic();
  if (HasFatalFailure()) return;
  const KernelState before = ReadKernelState();
  ASSERT_OK(EndAgent(/*kill=*/GetParam()));
  ASSERT_OK(StartAgent());
  ASSERT_OK_AND_ASSIGN(const auto stream, agent().Push());
  ASSERT_OK_AND_ASSIGN(const v1::Ack ack, stream->Snapshot(Everything()));
  EXPECT_EQ(ack.outcome(), v1::UNCHANGED) << ack.ShortDebugString();
  // Killed at once, it may not know whether somebody has committed since, and looks.
  EXPECT_EQ(ReadKernelState().markers, before.markers) << agent().log();
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  EXPECT_EQ(status.elements_written(), 0u) << status.ShortDebugString();
  ExpectNobodyNoticed();
  ExpectItGoesOn();
}

// What the controller says after a restart replaces what was saved: also what it no longer names.
TEST_P(UnchangedRestartTest, S342_AControllerThatSaysSomethingElseIsFollowed) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/old", kOther)} + WebSlices("shop/old", {&pod_a()})));
  StartTraffic();
  if (HasFatalFailure()) return;
  ASSERT_OK(EndAgent(/*kill=*/GetParam()));
  ASSERT_OK(StartAgent());
  EXPECT_EQ(Ask(pod_b().netns(), {.destination = kOther.v4, .port = 80}).server, "pod-a");
  ASSERT_OK(agent().Replace(Everything()));
  EXPECT_NE(Ask(pod_b().netns(), {.destination = kOther.v4, .port = 80, .timeout = kShort}).outcome,
            Outcome::kAnswered);
  ExpectNobodyNoticed();
  EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
}

// Other flags, another version: the rules are swapped in one transaction, and clients with session
// affinity keep their endpoints.
TEST_F(SavedStateTest, S342_AnUpgradeThatChangesTheRulesIsNotNoticed) {
  const std::vector<std::string> placement = StickyPlacement();
  StartTraffic();
  if (HasFatalFailure()) return;
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--masquerade-all"},
           {"--cluster-cidr", "10.244.0.0/16"},
           {"--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "veth"},
           {}}) {
    SCOPED_TRACE(flags.empty() ? "the first flags" : flags[0]);
    ASSERT_OK(EndAgent(/*kill=*/false));
    ASSERT_OK(StartAgent(flags));
    ASSERT_OK(WaitUntilServing());
    // The rules that an agent with these flags makes in an empty namespace.
    ASSERT_OK_AND_ASSIGN(const NetNs empty, NetNs::Create());
    ASSERT_OK_AND_ASSIGN(const auto fresh, Agent::Start(empty, flags));
    ASSERT_OK(fresh->Replace(Everything()));
    ASSERT_OK_AND_ASSIGN(const Listing listing, ReadListing(empty));
    EXPECT_OK(CheckKernel(agent(), node().netns(), listing.rules));
    ExpectNobodyNoticed();
    EXPECT_EQ(StickyPlacement(), placement);
  }
  ExpectItGoesOn();
}

// ---- State that cannot be trusted ----

struct FileDamage {
  std::string name;
  std::string (*damaged)(std::string bytes);
  // Not, where it looks like what is left after a loss of power: then only its age tells.
  bool set_aside = true;
};
std::ostream& operator<<(std::ostream& out, const FileDamage& damage) { return out << damage.name; }

class DamagedStateTest : public SavedStateTest, public ::testing::WithParamInterface<FileDamage> {
 protected:
  std::string StateFile() const { return state_folder() + "/state"; }

  bool IsSetAside(const std::string& bytes) const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(state_folder(), error)) {
      if (entry.path() != StateFile() && ReadFile(entry.path()) == bytes) return true;
    }
    return false;
  }
};
INSTANTIATE_TEST_SUITE_P(
    , DamagedStateTest,
    ::testing::ValuesIn(std::vector<FileDamage>{
        {"OneBit",
         [](std::string bytes) {
           bytes[bytes.size() / 2] ^= 1;
           return bytes;
         }},
        {"FirstByte",
         [](std::string bytes) {
           bytes[0] ^= 1;
           return bytes;
         }},
        {"Truncated", [](std::string bytes) { return bytes.substr(0, bytes.size() / 2); },
         /*set_aside=*/false},
        {"Zeroed", [](std::string bytes) { return std::string(bytes.size(), '\0'); }},
        {"AnotherFile", [](std::string) { return std::string("apiVersion: v1\nkind: List\n"); }},
    }),
    [](const ::testing::TestParamInfo<FileDamage>& info) { return info.param.name; });

TEST_P(DamagedStateTest, S342_IsSetAsideAndTheRulesServeOn) {
  const std::vector<std::string> placement = StickyPlacement();
  StartTraffic();
  if (HasFatalFailure()) return;
  const KernelState before = ReadKernelState();
  ASSERT_OK(EndAgent(/*kill=*/false));
  const std::string intact = ReadFile(StateFile());
  ASSERT_FALSE(intact.empty()) << "no state in " << StateFile();
  const std::string damaged = GetParam().damaged(intact);
  WriteFile(StateFile(), damaged);

  ASSERT_OK(StartAgent());
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  EXPECT_EQ(status.state(), v1::WAITING_FOR_STATE);
  const std::string named = GetParam().set_aside ? StateFile() : state_folder();
  EXPECT_NE(agent().log().find(named), std::string::npos) << agent().log();
  EXPECT_EQ(IsSetAside(damaged), GetParam().set_aside);
  ExpectNobodyNoticed();
  EXPECT_EQ(ReadKernelState(), before) << agent().log();

  ASSERT_OK(agent().Replace(Everything()));
  ASSERT_OK(WaitUntilServing());
  ExpectNobodyNoticed();
  EXPECT_EQ(StickyPlacement(), placement);
  EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartAgent());
  ASSERT_OK(WaitUntilServing());
  ExpectNobodyNoticed();
  ExpectItGoesOn();
}

// Restored from a backup, for example.
TEST_F(DamagedStateTest, S342_AStateOlderThanTheKernelDoesNoHarm) {
  const std::string file = StateFile();
  ASSERT_OK(EndAgent(/*kill=*/false));
  const std::string old = ReadFile(file);
  ASSERT_FALSE(old.empty()) << "no state in " << file;
  ASSERT_OK(StartAgent());
  ASSERT_OK(agent().Replace(Everything() + Objects{Web("shop/late", kOther)} +
                            WebSlices("shop/late", {&pod_a()})));
  StartTraffic();
  if (HasFatalFailure()) return;
  ASSERT_OK(EndAgent(/*kill=*/false));
  WriteFile(file, old);
  ASSERT_OK(StartAgent());
  ExpectNobodyNoticed();
  ASSERT_OK(agent().Replace(Everything()));
  ASSERT_OK(WaitUntilServing());
  ExpectNobodyNoticed();
  EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
  ExpectItGoesOn();
}

// ---- A folder that cannot be used ----

class UnusableFolderTest : public SavedStateTest {
 protected:
  void SetUp() override {
    SavedStateTest::SetUp();
    if (HasFatalFailure()) return;
    auto mounts = MountNs::Create();
    ASSERT_OK(mounts);
    mounts_.emplace(*std::move(mounts));
    ASSERT_OK(EndAgent(/*kill=*/false));
    std::filesystem::remove_all(state_folder());
  }

  absl::Status StartWithMounts() {
    absl::Status status;
    mounts_->Run([&] { status = StartAgent(); });
    return status;
  }

  // The agent serves what it is told, and says that it cannot keep it.
  void ExpectItWorksAndSays(const std::string& why) {
    ASSERT_OK(agent().Replace(Everything()));
    ASSERT_OK(agent().Apply({OtherService(0, 81)}));
    EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
    EXPECT_TRUE(Says(why)) << Status() << agent().log();
    EXPECT_NE(agent().log().find(why), std::string::npos) << agent().log();
    ExpectNobodyNoticed();
  }

  std::string Status() {
    const absl::StatusOr<v1::GetStatusResponse> status = agent().GetStatus();
    return status.ok() ? status->DebugString() : status.status().ToString();
  }
  bool Says(const std::string& why) { return Status().find(why) != std::string::npos; }
  absl::Status WaitUntilItCanBeKept() {
    return Eventually(
        "state that can be kept",
        [&] {
          const absl::StatusOr<v1::GetStatusResponse> status = agent().GetStatus();
          return status.ok() && status->saved_state().error().empty();
        },
        std::chrono::seconds(60));
  }

  // A healthy agent for the next test.
  void TearDown() override {
    if (world() != nullptr) world()->agent.reset();
    SavedStateTest::TearDown();
  }

  std::optional<MountNs> mounts_;
};

TEST_F(UnusableFolderTest, S342_AFileInPlaceOfTheFolder) {
  StartTraffic();
  if (HasFatalFailure()) return;
  WriteFile(state_folder(), "somebody else's");
  ASSERT_OK(StartAgent());
  ExpectItWorksAndSays(state_folder());
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartAgent());
  ExpectItWorksAndSays(state_folder());
  EXPECT_EQ(ReadFile(state_folder()), "somebody else's");
}

TEST_F(UnusableFolderTest, S342_AReadOnlyFolder) {
  StartTraffic();
  if (HasFatalFailure()) return;
  ASSERT_OK(mounts_->MountTmpfs(state_folder(), 16 << 20));
  ASSERT_OK(mounts_->SetReadOnly(state_folder(), true));
  ASSERT_OK(StartWithMounts());
  ExpectItWorksAndSays("Read-only file system");
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartWithMounts());
  ExpectItWorksAndSays("Read-only file system");

  ASSERT_OK(mounts_->SetReadOnly(state_folder(), false));
  ASSERT_OK(WaitUntilItCanBeKept());
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartWithMounts());
  EXPECT_OK(WaitUntilServing());
  ExpectNobodyNoticed();
}

TEST_F(UnusableFolderTest, S342_AFullFolder) {
  StartTraffic();
  if (HasFatalFailure()) return;
  constexpr size_t kSize = 4 << 20;
  const std::string filler = state_folder() + "/filler";
  ASSERT_OK(mounts_->MountTmpfs(state_folder(), kSize));
  const auto leave = [&](size_t bytes) {
    mounts_->Run([&] { WriteFile(filler, std::string(kSize - bytes, 'x')); });
  };
  leave(16 << 10);
  ASSERT_OK(StartWithMounts());
  ExpectItWorksAndSays("No space left on device");
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartWithMounts());
  ExpectItWorksAndSays("No space left on device");

  leave(kSize);
  ASSERT_OK(WaitUntilItCanBeKept());
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartWithMounts());
  EXPECT_OK(WaitUntilServing());
  ExpectNobodyNoticed();
}

TEST_F(SavedStateTest, S342_WithoutAStateFolderTheOldRulesServeUntilItIsTold) {
  StartTraffic();
  if (HasFatalFailure()) return;
  for (int i = 0; i < 2; ++i) {
    world()->agent.reset();
    ASSERT_OK_AND_ASSIGN(world()->agent, Agent::Start(node().netns(), {"--state-dir", ""}));
    ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
    EXPECT_EQ(status.state(), v1::WAITING_FOR_STATE);
    ExpectNobodyNoticed();
  }
  ASSERT_OK(agent().Replace(Everything()));
  ExpectItGoesOn();
}

TEST_F(SavedStateTest, AFolderIsForOneAgent) {
  ASSERT_OK_AND_ASSIGN(const NetNs elsewhere, NetNs::Create());
  const auto second = Agent::Start(elsewhere, Flags());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().ToString().find(state_folder()), std::string::npos) << second.status();
  ExpectItGoesOn();
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

  // Not while an agent would write them again.
  EXPECT_FALSE(Agent::CleanUp(node().netns()).ok());
  EXPECT_OK(agent().CheckServing());
  ASSERT_OK(EndAgent(/*kill=*/false));
  ASSERT_OK(Agent::CleanUp(node().netns()));
  ASSERT_OK_AND_ASSIGN(const std::string left, Nft(node().netns(), "list ruleset"));
  EXPECT_EQ(left, expected);
  ASSERT_OK(Agent::CleanUp(node().netns()));

  // What was saved does not pass for what is there.
  ASSERT_OK(RunNft(node().netns(), "flush ruleset\n"));
  ASSERT_OK(StartAgent());
  ASSERT_OK(WaitUntilServing());
  EXPECT_OK(WaitUntilTheKernelIsAsWanted());
  StartTraffic();
  ExpectNobodyNoticed();
}

}  // namespace
}  // namespace svcmap::testing
