// Tests of the leader file after failed writes and after a loss of power.
#include "proxy/saved/leader_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/differential/dice.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/saved/memory_files.h"

namespace svcmap::proxy::test {
namespace {

class LeaderFileTest : public ::testing::Test {
 protected:
  LeaderFileTest() { EXPECT_OK(files_.MakeFolder("/state")); }

  MemoryFiles files_;
  LeaderFile file_{"/state", files_};
  const Leader kFirst = {7, "svcmap-kube", "pod-7"};
  const Leader kSecond = {8, "other", ""};
};

TEST_F(LeaderFileTest, NoLeaderAtFirst) {
  ASSERT_OK_AND_ASSIGN(const Leader leader, file_.Load());
  EXPECT_EQ(leader, Leader());
}

TEST_F(LeaderFileTest, TheLastOneIsKept) {
  ASSERT_OK(file_.Save(kFirst));
  ASSERT_OK(file_.Save(kSecond));
  ASSERT_OK_AND_ASSIGN(const Leader leader, file_.Load());
  EXPECT_EQ(leader, kSecond);
}

// After any failure and any loss of power, the file contains the old or the new leader. If Save
// returned OK, the file contains the new leader.
TEST_F(LeaderFileTest, EachCallMayFailAndTheMachineMayGoDown) {
  testing::Dice dice(1);
  int failures = 0;
  for (size_t fails_at = 0; fails_at < 8; ++fails_at) {
    MemoryFiles files;
    ASSERT_OK(files.MakeFolder("/state"));
    const LeaderFile file("/state", files);
    ASSERT_OK(file.Save(kFirst));
    size_t calls = 0;
    files.SetPlan([&](size_t, MemoryFiles::Call) {
      MemoryFiles::Fault fault;
      if (calls++ == fails_at) fault.error = EIO;
      return fault;
    });
    const bool saved = file.Save(kSecond).ok();
    failures += saved ? 0 : 1;
    files.SetPlan(nullptr);
    files.PowerLoss(dice);
    ASSERT_OK_AND_ASSIGN(const Leader leader, file.Load());
    EXPECT_TRUE(leader == kSecond || (!saved && leader == kFirst)) << "call " << fails_at;
  }
  EXPECT_GE(failures, 4);
  EXPECT_LT(failures, 8);
}

TEST_F(LeaderFileTest, EveryFlippedBitIsNoticed) {
  ASSERT_OK(file_.Save(kFirst));
  const std::string path = std::string("/state/") + LeaderFile::kName;
  const std::string good = *files_.Content(path);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    files_.SetContent(path, bad);
    const absl::StatusOr<Leader> leader = file_.Load();
    EXPECT_TRUE(absl::IsDataLoss(leader.status()) || *leader == kFirst) << "bit " << bit;
  }
  files_.SetContent(path, std::string(100'000, 'x'));
  EXPECT_TRUE(absl::IsDataLoss(file_.Load().status()));
  files_.SetContent(path, "");
  EXPECT_TRUE(absl::IsDataLoss(file_.Load().status()));
}

}  // namespace
}  // namespace svcmap::proxy::test
