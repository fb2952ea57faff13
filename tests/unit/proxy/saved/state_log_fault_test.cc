// Tests of disks that are temporarily full, read-only or broken. The log never returns an error to
// its caller, and works again after the disk recovers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/saved/saved_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

using Call = MemoryFiles::Call;
using Fault = MemoryFiles::Fault;

bool Writes(Call call) {
  return call != Call::kRead && call != Call::kSize && call != Call::kList && call != Call::kLock;
}

// Makes `steps` random calls, and rewrites the log whenever the log requests a rewrite.
void Live(SavedWorld& world, int steps) {
  for (int i = 0; i < steps; ++i) {
    world.RandomStep();
    if (!world.model.open() && world.log->needs_everything()) world.Rewrite();
  }
  if (world.model.open()) world.End(true, 1);
  world.Work();
}

// Repairs the disk and expects that the file then becomes correct.
void ExpectRecovery(SavedWorld& world, const std::string& where) {
  world.files.SetPlan(nullptr);
  Live(world, 3);
  ASSERT_EQ(world.log->status().error, "") << where;
  world.Stop();
  const Reported expected = world.model.reported();
  ASSERT_EQ(world.Open(), expected) << where;
  ASSERT_THAT(world.files.Names(), Not(Contains(HasSubstr("state.new")))) << where;
  ASSERT_THAT(world.files.Names(), Not(Contains(HasSubstr("state.compacted")))) << where;
}

// If the file was deleted, the log writes a new file, because data in a deleted file would be lost.
TEST(StateLogFaultTest, ARemovedFileIsRewritten) {
  SavedWorld world;
  world.Open();
  Live(world, 10);
  ASSERT_OK(world.files.Remove("/var/lib/svcmap/state"));
  ASSERT_OK(world.files.Remove("/var/lib/svcmap/lock"));
  // A write makes the log check the file. On a slow machine, `Live` could also end after the retry.
  world.NoteGeneration(77);
  world.Work();
  EXPECT_THAT(world.log->status().error, HasSubstr("the file was removed"));
  ExpectRecovery(world, "removed");
}

TEST(StateLogFaultTest, EachCallMayFailOnce) {
  uint64_t compactions = 0;
  const auto live = [&](SavedWorld& world) {
    world.compact_above = 4000;
    world.Open();
    Live(world, 60);
    compactions += world.log->status().compactions;
    world.Stop();
    world.Open();
    Live(world, 10);
  };
  SavedWorld whole;
  live(whole);
  ASSERT_GT(compactions, 0u);
  const size_t calls = whole.files.calls();
  for (size_t call = 0; call < calls; ++call) {
    for (const int error : {ENOSPC, EIO}) {
      SavedWorld world;
      world.files.SetPlan([&](size_t number, Call) {
        return number == call ? Fault{.error = error, .bytes = 30} : Fault{};
      });
      live(world);
      const std::string where = "call " + std::to_string(call) + ", error " + std::to_string(error);
      ExpectRecovery(world, where);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(StateLogFaultTest, ADiskThatFillsUpAtAnyWriteLeavesNothingThatPassesForCurrent) {
  for (size_t writes = 0; writes < 30; ++writes) {
    for (const size_t bytes : {0, 30, 300}) {
      SavedWorld world;
      world.compact_above = 4000;
      size_t left = writes;
      std::vector<Reported> reported = {{}};
      world.files.SetPlan([&](size_t, Call call) {
        if (call != Call::kAppend) return Fault{};
        return left == 0 ? Fault{.error = ENOSPC, .bytes = bytes} : (--left, Fault{});
      });
      world.Open();
      for (int i = 0; i < 30; ++i) {
        world.RandomStep();
        reported.push_back(world.model.reported());
        if (world.log->needs_everything() && !world.model.open()) world.Rewrite();
      }
      const std::string where = std::to_string(writes) + " writes";
      const Reported old = SavedWorld().FoundIn(world.files);
      // An equal marker shows that the old file has the current content.
      const Content& now = world.model.reported().is;
      if (old.is.marker == now.marker) {
        EXPECT_EQ(old.is.services, now.services) << where;
      }
      if (old.may_be && old.may_be->marker == now.marker) {
        EXPECT_EQ(old.may_be->services, now.services) << where;
      }
      ExpectRecovery(world, where);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(StateLogFaultTest, RandomFaultsComeAndGo) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SavedWorld world(seed);
    Dice dice(seed);
    world.compact_above = 4000;
    world.Open();
    for (int i = 0; i < 10; ++i) {
      const unsigned percent = dice.OneOf({0u, 1u, 10u, 50u, 100u});
      world.files.SetPlan([&dice, percent](size_t, Call) {
        if (!dice.Chance(percent)) return Fault{};
        return Fault{.error = dice.OneOf({ENOSPC, EIO, EROFS}),
                     .done = dice.Chance(20),
                     .bytes = dice.Below(200)};
      });
      Live(world, 20);
    }
    ExpectRecovery(world, "seed " + std::to_string(seed));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// `error` is the error that made the log stop writing.
void ExpectOldOrNewAfterCrashes(int error) {
  bool over = false;
  size_t news = 0;
  for (size_t call = 0; !over; ++call) {
    SavedWorld world;
    world.Open();
    for (int i = 0; i < 5; ++i) world.RandomStep();
    if (world.model.open()) world.End(true, 1);
    world.Work();
    world.Flush();
    const Reported old = world.model.reported();
    world.files.SetPlan(
        [error](size_t, Call what) { return Fault{.error = what == Call::kAppend ? error : 0}; });
    Live(world, 10);
    const Reported now = world.model.reported();
    ASSERT_NE(old, now);
    ASSERT_NE(world.log->status().error, "");

    const size_t first = world.files.calls();
    world.files.SetPlan(
        [&](size_t number, Call) { return Fault{.crash = number == first + call}; });
    world.Rewrite();
    world.Work();
    over = !world.files.crashed();
    const bool power_loss = call % 2 == 1;
    const Reported found = power_loss ? world.ReopenAfterPowerLoss() : world.Reopen();
    // On a full disk, the log removes the old file to make room for the new file.
    const bool lost = error == ENOSPC && found == Reported();
    ASSERT_TRUE(found == old || lost || found == world.model.reported()) << call;
    if (found == world.model.reported()) ++news;
  }
  EXPECT_GT(news, 0u);
}

TEST(StateLogFaultTest, KilledWhileEverythingIsWrittenItSaysTheOldOrTheNew) {
  ExpectOldOrNewAfterCrashes(EIO);
}

TEST(StateLogFaultTest, KilledWhileAFullDiskIsRewrittenItSaysTheOldOrTheNewOrNothing) {
  ExpectOldOrNewAfterCrashes(ENOSPC);
}

// The background thread may run at any time during a rewrite. A partially written file must not
// replace the old file.
TEST(StateLogFaultTest, NothingCountsBeforeEverythingIsWritten) {
  SavedWorld world;
  world.Open();
  for (int i = 0; i < 10; ++i) world.RandomStep();
  if (world.model.open()) world.End(true, 1);
  world.Work();
  world.PutOutOfOrder();
  const Reported old = SavedWorld().FoundIn(world.files);
  world.Rewrite([&] {
    world.log->Work();
    EXPECT_EQ(SavedWorld().FoundIn(world.files), old);
  });
  EXPECT_EQ(SavedWorld().FoundIn(world.files), old);
  world.Work();
  EXPECT_EQ(SavedWorld().FoundIn(world.files), world.model.reported());
}

class StateLogOutageTest : public ::testing::Test, protected SavedWorld {
 protected:
  void Break(int error) {
    files.SetPlan([error](size_t, Call call) { return Fault{.error = Writes(call) ? error : 0}; });
  }
  void Commit() {
    OwnedCommit commit = RandomCommit();
    commit.whole = false;
    Begin(commit);
    End(true, 1);
  }
};

TEST_F(StateLogOutageTest, IsReportedOnceAndSoIsItsEnd) {
  Open();
  Live(*this, 10);
  Break(ENOSPC);
  for (int i = 0; i < 10; ++i) Live(*this, 10);
  EXPECT_THAT(
      problems,
      ElementsAre("saving the state failed, traffic is not affected, but after a restart svcmapd "
                  "does not modify the rules until a controller sends a snapshot "
                  "path=/var/lib/svcmap error=\"write: No space left on device (ENOSPC)\""));
  EXPECT_THAT(log->status().error, HasSubstr("No space left on device"));
  EXPECT_GT(log->status().failures, 5u);
  EXPECT_GT(log->status().error_since, std::chrono::system_clock::now() - std::chrono::minutes(1));
  EXPECT_EQ(recoveries, 0);
  files.SetPlan(nullptr);
  Live(*this, 10);
  EXPECT_EQ(log->status().error, "");
  EXPECT_EQ(recoveries, 1);
  Break(EIO);
  Live(*this, 10);
  EXPECT_THAT(problems, SizeIs(2));
}

// The log clears the error only when the rewritten file is on disk under its final name. A restart
// would not find the file under another name.
TEST_F(StateLogOutageTest, IsOverOnlyWithTheSync) {
  Open();
  Break(ENOSPC);
  Live(*this, 5);
  files.SetPlan(nullptr);
  Rewrite();
  EXPECT_NE(log->status().error, "");
  EXPECT_FALSE(log->needs_everything());
  Work();
  EXPECT_EQ(log->status().error, "");
}

TEST_F(StateLogOutageTest, TheNextTryTakesItsTime) {
  SavedState found;
  StateLogOptions options = Options();
  options.first_retry = options.last_retry = std::chrono::hours(1);
  auto log = StateLog::Open(kFolder, files, &found, options);
  ASSERT_TRUE(log.ok());
  EXPECT_FALSE((*log)->needs_everything());
  Break(ENOSPC);
  (*log)->PutObject(Kind::kNode, "n", "m", 0);
  (*log)->Flush();
  EXPECT_NE((*log)->status().error, "");
  EXPECT_FALSE((*log)->needs_everything());
}

TEST_F(StateLogOutageTest, AReadOnlyFolderIsReadAllTheSame) {
  Open();
  Live(*this, 20);
  Stop();
  const Reported expected = model.reported();
  // If the lock and the file cannot be opened for writing, the log opens the file for reading.
  size_t opens = 0;
  files.SetPlan([&](size_t, Call call) {
    if (call == Call::kOpen) return Fault{.error = ++opens == 1 ? EROFS : 0};
    return Fault{.error = Writes(call) && call != Call::kMakeFolder ? EROFS : 0};
  });
  problems.clear();
  EXPECT_EQ(Open(), expected);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("Read-only file system (EROFS)")));
  EXPECT_TRUE(log->needs_everything());
  ExpectRecovery(*this, "");
}

TEST_F(StateLogOutageTest, AFolderThatCannotBeMadeIsNoReasonNotToStart) {
  Break(EACCES);
  EXPECT_EQ(Open(), Reported());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("make folder /var/lib/svcmap: Permission denied")));
  Live(*this, 10);
  ExpectRecovery(*this, "");
}

// If the log cannot lock the folder at first, the log must not write to the folder while another
// agent holds the lock.
TEST_F(StateLogOutageTest, ALateLockMayBeTakenByAnother) {
  Break(EROFS);
  Open();
  files.SetPlan(nullptr);
  SavedWorld second;
  SavedState found;
  auto other = StateLog::Open(kFolder, files, &found, second.Options());
  ASSERT_TRUE(other.ok());
  Rewrite();
  EXPECT_THAT(log->status().error, HasSubstr("another agent uses the folder /var/lib/svcmap"));
  (*other)->Stop();
  Rewrite();
  Work();
  EXPECT_EQ(log->status().error, "");
}

// The new file may fill the disk, so a failed rewrite must delete the new file.
TEST_F(StateLogOutageTest, AFailedRewriteLeavesNothing) {
  Open();
  Live(*this, 20);
  Break(ENOSPC);
  Live(*this, 5);
  for (const Call where : {Call::kAppend, Call::kSync, Call::kRename}) {
    files.SetPlan(
        [where](size_t, Call call) { return Fault{.error = call == where ? ENOSPC : 0}; });
    Rewrite();
    Work();
    EXPECT_NE(log->status().error, "");
    EXPECT_THAT(files.Names(), Not(Contains(HasSubstr("state.new"))));
  }
}

TEST_F(StateLogOutageTest, AFileThatCannotBeRewrittenGrowsOn) {
  compact_above = 2000;
  Open();
  size_t opens = 0;
  files.SetPlan([&](size_t, Call call) {
    if (call == Call::kOpen) ++opens;
    return Fault{.error = call == Call::kOpen ? ENOSPC : 0};
  });
  Live(*this, 300);
  EXPECT_EQ(log->status().error, "");
  EXPECT_EQ(log->status().compactions, 0u);
  EXPECT_THAT(problems, Contains(HasSubstr("compacting the saved state failed, the file continues "
                                           "to grow path=/var/lib/svcmap/state error=\"open")));
  // The log attempts the next rewrite only after the file has grown by a quarter.
  EXPECT_LT(opens, 30u);
  ExpectRecovery(*this, "");
}

// A log on a disk of limited size. The plan of MemoryFiles does not contain the size of a write, so
// a write fails if less than one frame of this test would fit.
class StateLogFullDiskTest : public StateLogOutageTest {
 protected:
  static constexpr size_t kLargestFrame = 4000;

  void SetDiskSize(size_t size) {
    files.SetPlan([this, size](size_t, Call call) {
      size_t used = 0;
      for (const std::string& name : files.Names()) used += files.Content(name)->size();
      return Fault{.error = call == Call::kAppend && used + kLargestFrame > size ? ENOSPC : 0,
                   .bytes = 0};
    });
  }
  // Writes commits until a write fails. The last commit is not in the file.
  void FillDisk() {
    for (int i = 0; i < 1000 && log->status().error.empty(); ++i) Commit();
    ASSERT_THAT(log->status().error, HasSubstr("No space left on device"));
  }
};

// The log grows until its own file fills the disk. Then a complete new file fits only after the
// removal of the old file, which is out of date.
TEST_F(StateLogFullDiskTest, AFileThatFillsTheDiskIsReplaced) {
  Open();
  SetDiskSize(40'000);
  for (int round = 0; round < 3; ++round) {
    FillDisk();
    if (HasFatalFailure()) return;
    for (int retry = 0; retry < 3; ++retry) {
      if (log->needs_everything()) Rewrite();
      Work();
    }
    EXPECT_EQ(log->status().error, "") << round;
  }
  const Reported expected = model.reported();
  EXPECT_EQ(Reopen(), expected);
}

TEST_F(StateLogFullDiskTest, DamagedFilesAreRemovedIfTheyFillTheDisk) {
  Open();
  const std::string first = std::string(kFolder) + "/state.damaged-20260101T000000Z";
  files.SetContent(first, std::string(15'000, 'x'));
  files.SetContent(std::string(kFolder) + "/state.damaged-20260102T000000Z",
                   std::string(15'000, 'x'));
  SetDiskSize(40'000);
  while (log->status().error.empty()) Commit();
  SetDiskSize(34'500);
  for (int retry = 0; retry < 4; ++retry) {
    if (log->needs_everything()) Rewrite();
    Work();
  }
  EXPECT_EQ(log->status().error, "");
  EXPECT_THAT(files.Names(), Not(Contains(first)));
}

// The removal of the old file must not follow from errors that the removal cannot resolve.
TEST_F(StateLogFullDiskTest, OnlyALackOfSpaceRemovesTheOldFile) {
  Open();
  Commit();
  Work();
  for (const int error : {EMFILE, EIO, EROFS, ENOMEM}) {
    Break(error);
    Live(*this, 5);
    EXPECT_THAT(files.Names(), Contains(kPath)) << error;
  }
}

// Without enough space for a complete file, the log retries with a delay, and works again after
// space has become available.
TEST_F(StateLogFullDiskTest, WorksAgainWhenSpaceReturns) {
  Open();
  SetDiskSize(40'000);
  FillDisk();
  if (HasFatalFailure()) return;
  SetDiskSize(kLargestFrame);
  for (int retry = 0; retry < 5; ++retry) {
    if (log->needs_everything()) Rewrite();
    Work();
  }
  EXPECT_THAT(log->status().error, HasSubstr("No space left on device"));
  EXPECT_THAT(files.Names(), Not(Contains(HasSubstr("state.new"))));
  SetDiskSize(40'000);
  Rewrite();
  Work();
  EXPECT_EQ(log->status().error, "");
  const Reported expected = model.reported();
  EXPECT_EQ(Reopen(), expected);
}

// If the log finds damage in its file during a rewrite, the log starts a new file. A restart could
// not use the damaged file.
TEST_F(StateLogOutageTest, DamageFoundWhenTheFileIsRewrittenStartsANewOne) {
  compact_above = 2000;
  Open();
  Commit();
  files.Damage(kPath, 100);
  while (log->status().bytes <= compact_above) Commit();
  Work();
  EXPECT_THAT(log->status().error, HasSubstr("offset 36: frame checksum mismatch"));
  EXPECT_EQ(log->status().compactions, 0u);
  ExpectRecovery(*this, "");
}

}  // namespace
}  // namespace svcmap::proxy
