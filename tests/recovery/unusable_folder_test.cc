// Tests that with an unusable state directory, the agent programs Services, reports the error and
// retries.
#include <filesystem>
#include <optional>

#include "tests/recovery/saved_state_world.h"
#include "tests/support/mount_ns.h"

namespace svcmap::testing {
namespace {

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

  // Expects that the agent programs the received state, cannot save the state, and reports the
  // reason `why`.
  void ExpectItWorksAndSays(const std::string& why) {
    ASSERT_OK(agent().Replace(Everything()));
    ASSERT_OK(agent().Apply({OtherService(0, 81)}));
    EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
    EXPECT_TRUE(Says(why)) << Status() << agent().log();
    EXPECT_NE(agent().log().find(why), std::string::npos) << agent().log();
    ExpectNoInterruption();
  }

  std::string Status() {
    const absl::StatusOr<v1::GetStatusResponse> status = agent().GetStatus();
    return status.ok() ? status->DebugString() : status.status().ToString();
  }
  bool Says(const std::string& why) { return Status().find(why) != std::string::npos; }
  absl::Status WaitUntilItCanBeKept() {
    return Eventually("state that can be kept", [&] {
      const absl::StatusOr<v1::GetStatusResponse> status = agent().GetStatus();
      return status.ok() && status->saved_state().error().empty();
    });
  }

  // Starts a healthy agent for the next test.
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
  ExpectItWorksAndSays("disk is full");
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartWithMounts());
  ExpectItWorksAndSays("disk is full");

  leave(kSize);
  ASSERT_OK(WaitUntilItCanBeKept());
  ASSERT_OK(agent().Apply({OtherService(0, 82)}));  // The marker now says that it is saved.
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartWithMounts());
  EXPECT_OK(WaitUntilServing());
  ExpectNoInterruption();
}

}  // namespace
}  // namespace svcmap::testing
