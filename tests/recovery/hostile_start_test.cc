// Tests of svcmapd's start with a state directory that another user owns, or whose file system does
// not answer.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/recovery/saved_state_world.h"
#include "tests/support/mount_ns.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class HostileStartTest : public SavedStateTest {
 protected:
  // Prepares a state directory that an agent has used before it exited.
  void SetUp() override {
    SavedStateTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(EndAgent(/*kill=*/false));
  }
  std::string Path(const std::string& name) const { return state_folder() + "/" + name; }

  void ExpectItStartsAndSaves() {
    ASSERT_OK(StartAgent());
    ASSERT_OK(agent().Replace(Everything()));
    ASSERT_OK(agent().WaitUntilSaved());
    ASSERT_OK(EndAgent(/*kill=*/false));
    ASSERT_OK(StartAgent());
    EXPECT_OK(WaitUntilServing());
  }
};

TEST_F(HostileStartTest, AFifoInPlaceOfAnyFileDoesNotBlockTheStart) {
  for (const char* name : {"objects.db", "objects.db-wal", "lock"}) {
    SCOPED_TRACE(name);
    fs::remove(Path(name));
    ASSERT_EQ(mkfifo(Path(name).c_str(), 0666), 0);
    ASSERT_OK(StartAgent());
    ASSERT_OK(agent().Replace(Everything()));
    ASSERT_OK(EndAgent(/*kill=*/false));
  }
  ExpectItStartsAndSaves();
}

TEST_F(HostileStartTest, AStateDirectoryThatOthersCanChangeIsWarnedAbout) {
  constexpr char kWarning[] = "other users can change the state directory";
  ASSERT_OK(StartAgent());
  EXPECT_THAT(agent().log(), Not(HasSubstr(kWarning)));
  ASSERT_OK(EndAgent(/*kill=*/false));
  ASSERT_EQ(chmod(state_folder().c_str(), 0777), 0);
  ASSERT_OK(StartAgent());
  EXPECT_THAT(agent().log(),
              HasSubstr(absl::StrCat(kWarning, " path=", state_folder(), " reason=\"mode 0777\"")));
  ASSERT_OK(EndAgent(/*kill=*/false));
  ASSERT_EQ(chmod(state_folder().c_str(), 0700), 0);
  ASSERT_EQ(chown(state_folder().c_str(), 65534, 65534), 0);
  ASSERT_OK(StartAgent());
  EXPECT_THAT(agent().log(), HasSubstr("reason=\"owned by uid 65534\""));
}

// The server of the file system never answers, so every access waits, as on a hung disk.
bool BlocksSigterm(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("SigBlk:")) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
  }
  return false;
}

TEST_F(HostileStartTest, SigtermEndsAStartThatWaitsForTheDisk) {
  const UniqueFd server(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(server.ok()) << "open /dev/fuse: errno " << errno;
  ASSERT_OK_AND_ASSIGN(const MountNs mounts, MountNs::Create());
  absl::StatusOr<std::unique_ptr<Agent>> agent;
  mounts.Run([&] {
    fs::create_directories(state_folder());
    const std::string options =
        absl::StrCat("fd=", server.get(), ",rootmode=40000,user_id=0,group_id=0");
    ASSERT_EQ(mount("hung", state_folder().c_str(), "fuse", 0, options.c_str()), 0) << errno;
    agent = Agent::Launch(node().netns(), Flags());
  });
  ASSERT_OK(agent);
  // The agent handles SIGTERM from then on, and cannot start without the disk.
  EXPECT_OK(Eventually("SIGTERM is blocked", [&] { return BlocksSigterm((*agent)->pid()); }));
  kill((*agent)->pid(), SIGUSR1);  // svcmapd uses this signal to end the wait for SIGTERM.
  EXPECT_OK((*agent)->Stop());
  EXPECT_THAT((*agent)->log(), HasSubstr("exiting during start"));
}

}  // namespace
}  // namespace svcmap::testing
