#include "proxy/saved/state_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/proxy/saved/saved_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StateLogTest : public ::testing::Test, protected SavedWorld {
 protected:
  StateLogTest() { Open(); }

  // Makes a successful commit with one Service.
  void Commit(const std::string& key, uint32_t kernel_generation) {
    OwnedCommit commit{.marker = {dice.Number(), ++generation}, .whole = generation == 1};
    commit.services[key] = RandomServiceRows(dice);
    Begin(commit);
    End(true, kernel_generation);
  }
};

TEST_F(StateLogTest, S342EverythingComesBackAsItWas) {
  for (int seed = 0; seed < 50; ++seed) {
    RandomObjectChange();
    OwnedCommit commit = RandomCommit();
    commit.node_rows = RandomRows(dice);
    commit.tables = RandomTables(dice);
    Begin(commit);
    End(true, static_cast<uint32_t>(seed));
    Stop();
    const Reported expected = model.reported();
    ASSERT_EQ(Open(), expected) << seed;
  }
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(StateLogTest, TheEndOfTheFirstSnapshotIsRemembered) {
  SetPartial(true);
  Commit("ns/a", 1);
  EXPECT_TRUE(Reopen().is.partial);
  Commit("ns/b", 2);
  EXPECT_TRUE(Reopen().is.partial);
  SetPartial(false);
  Flush();
  EXPECT_FALSE(Reopen().is.partial);
}

TEST_F(StateLogTest, NothingIsFoundInANewFolder) {
  EXPECT_EQ(model.reported(), Reported());
  EXPECT_EQ(Reopen(), Reported());
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(StateLogTest, S342AnAttemptWithoutOutcomeIsDistinguished) {
  Commit("ns/a", 7);
  OwnedCommit commit{.marker = {1, 2}};
  commit.services["ns/b"] = RandomServiceRows(dice);
  commit.services["ns/a"] = {};  // The Service is deleted.
  Begin(commit);
  Reopen();
  const Reported reported = model.reported();
  EXPECT_EQ(reported.is.services.count("ns/a"), 1u);
  EXPECT_EQ(reported.is.generation, 7u);
  ASSERT_TRUE(reported.may_be);
  EXPECT_EQ(reported.may_be->marker, (Marker{1, 2}));
  EXPECT_EQ(reported.may_be->services.count("ns/a"), 0u);
  EXPECT_EQ(reported.may_be->services.count("ns/b"), 1u);
  EXPECT_EQ(reported.may_be->generation, 8u);
  // The marker in the kernel determines the outcome of the attempt, and the log writes this outcome
  // to the file.
  End(true, 8);
  EXPECT_EQ(Reopen(), (Reported{.is = *reported.may_be}));
}

TEST_F(StateLogTest, AnAttemptThatIsNotCompleteWasNeverAsked) {
  Commit("ns/a", 7);
  const Reported before = model.reported();
  OwnedCommit commit{.marker = {1, 2}, .whole = true};
  for (int i = 0; i < 4000; ++i) {
    commit.services["ns/" + std::to_string(i)] = RandomServiceRows(dice);
  }
  size_t appends = 0;
  files.SetPlan([&](size_t, MemoryFiles::Call call) {
    const bool third = call == MemoryFiles::Call::kAppend && ++appends == 3;
    return MemoryFiles::Fault{.crash = third};
  });
  log->Begin(commit.Borrow());
  ASSERT_TRUE(files.crashed()) << "it fits into two frames";
  problems.clear();
  EXPECT_EQ(Reopen(), before);
  // Records of the incomplete attempt must not become part of the next attempt.
  Commit("ns/b", 8);
  const Reported after = model.reported();
  EXPECT_THAT(after.is.services, SizeIs(2));
  EXPECT_EQ(Reopen(), after);
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(StateLogTest, AWholeCommitLeavesNothingOfWhatWas) {
  Commit("ns/a", 7);
  OwnedCommit commit{.marker = {1, 2}, .whole = true};
  commit.services["ns/b"] = RandomServiceRows(dice);
  Begin(commit);
  End(true, 8);
  const Reported reported = Reopen();
  EXPECT_THAT(reported.is.services, SizeIs(1));
  EXPECT_EQ(reported.is.services.count("ns/b"), 1u);
}

TEST_F(StateLogTest, AWholeAttemptMayFollowOneThatStaysUnsettled) {
  Commit("ns/a", 7);
  Begin(RandomCommit());
  OwnedCommit commit = RandomCommit();
  commit.whole = true;
  Begin(commit);
  EXPECT_EQ(log->status().error, "");
  const Reported expected = model.reported();
  EXPECT_EQ(Reopen(), expected);
}

TEST_F(StateLogTest, AnotherAttemptThanAWholeOneMayNot) {
  Commit("ns/a", 7);
  OwnedCommit commit = RandomCommit();
  commit.whole = false;
  Begin(commit);
  const Reported before = model.reported();
  log->Begin(commit.Borrow());
  EXPECT_EQ(log->status().error, "/var/lib/svcmap: new attempt while the previous attempt is open");
  EXPECT_TRUE(log->needs_everything());
  EXPECT_EQ(Reopen(), before);
}

TEST_F(StateLogTest, GenerationsOfOthersAreWrittenWithTheNextSyncOrWrite) {
  Commit("ns/a", 7);
  NoteGeneration(9);
  Work();
  EXPECT_EQ(Reopen().is.generation, 9u);
  NoteGeneration(11);
  OwnedCommit commit{.marker = {1, 2}};
  Begin(commit);
  const Reported reported = Reopen();
  EXPECT_EQ(reported.is.generation, 11u);
  ASSERT_TRUE(reported.may_be);
  EXPECT_EQ(reported.may_be->generation, 12u);
  End(false, 15);
  EXPECT_EQ(Reopen().is.generation, 15u);
  // The generation in End takes precedence over an earlier NoteGeneration.
  Begin(commit);
  NoteGeneration(20);
  End(true, 21);
  EXPECT_EQ(Reopen().is.generation, 21u);
}

TEST_F(StateLogTest, AnOutcomeIsWrittenWithTheNextAttempt) {
  Commit("ns/a", 7);
  Begin({.marker = {1, 2}});
  const auto attempt = files.Content(kPath);
  log->End(true, 8);
  EXPECT_EQ(files.Content(kPath), attempt);
  model.End(true, 8);
  Begin({.marker = {1, 3}});
  const Reported expected = model.reported();
  EXPECT_EQ(expected.is.marker, (Marker{1, 2}));
  ASSERT_TRUE(expected.may_be);
  EXPECT_EQ(expected.may_be->marker, (Marker{1, 3}));
  EXPECT_EQ(Reopen(), expected);
}

TEST_F(StateLogTest, KilledBeforeTheOutcomeIsWrittenTheAttemptIsOpen) {
  Commit("ns/a", 7);
  Begin({.marker = {1, 2}});
  const Reported expected = model.reported();
  log->End(true, 8);
  EXPECT_EQ(Reopen(), expected);
}

TEST_F(StateLogTest, AGenerationThatIsNotKnownIsForgotten) {
  Commit("ns/a", 7);
  Begin({.marker = {1, 2}});
  End(true, std::nullopt);
  const Reported reported = Reopen();
  EXPECT_EQ(reported.is.marker, (Marker{1, 2}));
  EXPECT_EQ(reported.is.generation, std::nullopt);
  Begin({.marker = {1, 3}});
  EXPECT_EQ(Reopen().may_be->generation, std::nullopt);
}

TEST_F(StateLogTest, ManyObjectsDoNotPileUpInMemory) {
  for (int i = 0; i < 1000; ++i) PutObject(Kind::kNode, std::to_string(i), std::string(1000, 'x'));
  EXPECT_GT(log->status().bytes, 700'000u);
  Flush();
  const Reported expected = model.reported();
  EXPECT_THAT(expected.is.objects, SizeIs(1000));
  EXPECT_EQ(Reopen(), expected);
}

TEST_F(StateLogTest, AMessageOfTheLargestSizeFits) {
  PutObject(Kind::kEndpointSlice, "ns/a", std::string(16 << 20, 'x'));
  Flush();
  const Reported expected = model.reported();
  EXPECT_EQ(Reopen(), expected);
}

TEST_F(StateLogTest, SyncsWhatWasWrittenAndNothingElse) {
  size_t syncs = 0;
  files.SetPlan([&](size_t, MemoryFiles::Call call) {
    syncs += call == MemoryFiles::Call::kSync ? 1 : 0;
    return MemoryFiles::Fault{};
  });
  Work();
  EXPECT_EQ(syncs, 1u);
  Work();
  EXPECT_EQ(syncs, 1u);
  Commit("ns/a", 7);
  Commit("ns/b", 8);
  EXPECT_EQ(syncs, 1u);
  Work();
  EXPECT_EQ(syncs, 2u);
  EXPECT_GT(log->status().synced, std::chrono::system_clock::now() - std::chrono::minutes(1));
}

TEST_F(StateLogTest, SaysWhenItWasWritten) {
  const auto before = std::chrono::system_clock::now();
  Commit("ns/a", 7);
  Kill();
  SavedState found;
  ASSERT_TRUE(StateLog::Open(kFolder, files, &found, Options()).ok());
  EXPECT_GE(found.saved, before);
  EXPECT_LE(found.saved, std::chrono::system_clock::now());
}

TEST_F(StateLogTest, TwoAgentsNeverShareAFolder) {
  Commit("ns/a", 7);
  SavedState found;
  const auto second = StateLog::Open(kFolder, files, &found, Options());
  EXPECT_EQ(second.status(),
            absl::FailedPreconditionError("another agent uses the folder /var/lib/svcmap"));
  EXPECT_EQ(log->status().error, "");
  Stop();
  const Reported expected = model.reported();
  EXPECT_EQ(Open(), expected);
}

TEST_F(StateLogTest, IsRewrittenWhenMostOfItIsOutOfDate) {
  compact_above = 20000;
  Reopen();
  int commits = 0;
  while (log->status().compactions < 3) {
    ASSERT_LT(++commits, 5000);
    RandomObjectChange();
    Commit(RandomKey(), static_cast<uint32_t>(commits));
    if (commits % 5 == 0) Work();
    ASSERT_LT(log->status().bytes, 200'000u);
  }
  EXPECT_LT(log->status().bytes, 2 * 20000u);
  const Reported expected = model.reported();
  EXPECT_EQ(Reopen(), expected);
  EXPECT_THAT(problems, IsEmpty());
}

// An attempt may be open during an entire compaction.
TEST_F(StateLogTest, AnOpenAttemptSurvivesThatTheFileIsRewritten) {
  compact_above = 5000;
  Reopen();
  for (int i = 0; i < 300; ++i) {
    RandomStep();
    if (!model.open()) continue;
    Work();
    ASSERT_EQ(SavedWorld().FoundIn(files), model.reported()) << i;
  }
  EXPECT_GT(log->status().compactions, 2u);
}

// After the removal of most objects, the log must be compacted, even if the file has not doubled in
// size.
TEST_F(StateLogTest, IsRewrittenAfterMostObjectsWereRemoved) {
  compact_above = 5000;
  Reopen();
  for (int i = 0; i < 500; ++i) {
    PutObject(Kind::kNode, std::to_string(i), std::string(100, 'x'));
    Flush();
    Work();
  }
  for (int i = 0; i < 490; ++i) RemoveObject(Kind::kNode, std::to_string(i));
  Flush();
  log->Recount();
  Work();
  EXPECT_EQ(log->status().compactions, 1u);
  EXPECT_LT(log->status().bytes, 5000u);
}

TEST_F(StateLogTest, AFileThatIsAliveIsNotRewritten) {
  compact_above = 5000;
  Reopen();
  for (int i = 0; i < 500; ++i) {
    PutObject(Kind::kNode, std::to_string(i), std::string(100, 'x'));
    Flush();
    Work();
  }
  EXPECT_EQ(log->status().compactions, 0u);
}

TEST_F(StateLogTest, NothingIsWrittenAfterStop) {
  Commit("ns/a", 7);
  const Reported expected = model.reported();
  log->Stop();
  const auto content = files.Content(kPath);
  log->PutObject(Kind::kNode, "n", "m", 0);
  log->Begin({});
  log->End(true, 1);
  log->NoteGeneration(2);
  log->Work();
  EXPECT_FALSE(log->needs_everything());
  EXPECT_EQ(files.Content(kPath), content);
  EXPECT_EQ(Open(), expected);
}

}  // namespace
}  // namespace svcmap::proxy
