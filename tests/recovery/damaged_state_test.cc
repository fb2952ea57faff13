// Tests that svcmapd renames an unusable saved state and that the rules stay in effect.
#include <filesystem>
#include <fstream>

#include "tests/recovery/saved_state_world.h"

namespace svcmap::testing {
namespace {

class DamagedStateTest : public SavedStateTest {
 protected:
  std::string StateFile() const { return state_folder() + "/objects.db"; }

  bool IsRenamed() const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(state_folder(), error)) {
      if (entry.path().string().starts_with(StateFile() + ".damaged")) return true;
    }
    return false;
  }
};

// ObjectStoreDamageTest tests all kinds of damage.
TEST_F(DamagedStateTest, S342_IsRenamedAndTheRulesStayInEffect) {
  const std::vector<std::string> placement = StickyPlacement();
  StartTraffic();
  if (HasFatalFailure()) return;
  const ElementLists before = ReadMarkers();
  ASSERT_OK(EndAgent(/*kill=*/false));
  std::string state = ReadFile(StateFile());
  ASSERT_FALSE(state.empty()) << "no state in " << StateFile();
  state[state.size() / 2] ^= 1;
  std::ofstream(StateFile(), std::ios::binary | std::ios::trunc) << state;

  ASSERT_OK(StartAgent());
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  EXPECT_EQ(status.state(), v1::WAITING_FOR_STATE);
  EXPECT_NE(agent().log().find(StateFile()), std::string::npos) << agent().log();
  EXPECT_TRUE(IsRenamed());
  ExpectNoInterruption();
  EXPECT_EQ(ReadMarkers(), before) << agent().log();

  ASSERT_OK(agent().Replace(Everything()));
  ASSERT_OK(WaitUntilServing());
  ExpectNoInterruption();
  EXPECT_EQ(StickyPlacement(), placement);
  EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_OK(StartAgent());
  ASSERT_OK(WaitUntilServing());
  ExpectNoInterruption();
  ExpectItGoesOn();
}

}  // namespace
}  // namespace svcmap::testing
