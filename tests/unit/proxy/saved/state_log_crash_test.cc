// Tests of crashes at each call of a fixed history and of many random histories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/proxy/saved/saved_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::IsEmpty;

using Fault = MemoryFiles::Fault;

// The effect of a crash on the last file call of the process.
struct End {
  const char* name;
  Fault fault;
};
const End kEnds[] = {{"before", {.crash = true}},
                     {"after", {.crash = true, .done = true}},
                     {"after a few bytes", {.crash = true, .bytes = 20}},
                     {"after some bytes", {.crash = true, .bytes = 100}}};

// Runs a fixed history with all kinds of calls, including a compaction and a stop of the agent.
// Makes no more calls after a crash. Appends the expected content of the file after each step to
// `reported`. `synced` is the number of steps that are certainly on disk.
void Live(SavedWorld& world, std::vector<Reported>& reported, size_t& synced) {
  const auto step = [&](const std::function<void()>& act) {
    if (world.files.crashed()) return;
    act();
    reported.push_back(world.model.reported());
  };
  const auto work = [&] {
    if (world.files.crashed()) return;
    const auto before = world.log->status().synced;
    step([&] { world.Work(); });
    // The crash may have happened after the first sync of this step.
    if (world.log->status().synced != before) synced = reported.size();
  };
  const auto commit = [&] {
    step([&] { world.Begin(world.RandomCommit()); });
    step([&] { world.End(world.dice.Chance(80), world.RandomGeneration()); });
  };
  reported.push_back({});
  world.compact_above = 2000;
  step([&] { world.Open(); });
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 3; ++i) step([&] { world.RandomObjectChange(); });
    commit();
    work();
    step([&] { world.RandomObjectChange(); });
    step([&] { world.Flush(); });
    step([&] { world.NoteGeneration(77); });
    work();
    commit();
    commit();
    step([&] { world.Begin(world.RandomCommit()); });
    work();
    step([&] { world.End(true, 5); });
    if (round == 2) {
      step([&] { world.Stop(); });
      step([&] { world.Open(); });
      if (!world.files.crashed()) synced = reported.size();
    }
  }
}

// Runs the history once for each of its file calls, with a crash at this call, then calls `check`.
void EndAtEachCall(
    const std::function<void(SavedWorld& world, const std::vector<Reported>& reported,
                             size_t synced, const std::string& where)>& check) {
  SavedWorld whole;
  std::vector<Reported> reported;
  size_t synced = 0;
  Live(whole, reported, synced);
  const size_t calls = whole.files.calls();
  ASSERT_GT(calls, 80u);
  ASSERT_GT(whole.log->status().compactions, 0u);
  for (size_t call = 0; call < calls; ++call) {
    for (const End& end : kEnds) {
      SavedWorld world;
      reported.clear();
      synced = 0;
      world.files.SetPlan(
          [&](size_t number, MemoryFiles::Call) { return number == call ? end.fault : Fault{}; });
      Live(world, reported, synced);
      ASSERT_TRUE(world.files.crashed());
      check(world, reported, synced, "call " + std::to_string(call) + ", " + end.name);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Checks that the log works normally after the restart, starting with the state from the file.
void GoOn(SavedWorld& world, const std::string& where) {
  for (int i = 0; i < 6; ++i) world.RandomStep();
  const Reported expected = world.model.reported();
  ASSERT_EQ(world.Reopen(), expected) << where;
  ASSERT_EQ(world.log->status().error, "") << where;
}

TEST(StateLogCrashTest, S342KilledAtAnyCallItSaysExactlyWhatWasTrue) {
  EndAtEachCall([](SavedWorld& world, const std::vector<Reported>& reported, size_t,
                   const std::string& where) {
    world.problems.clear();
    const Reported found = world.Reopen();
    // The file contains the state after the interrupted step or after the previous step.
    const bool last = found == reported.back();
    const bool before = found == reported[reported.size() - 2];
    ASSERT_TRUE(last || before) << where << ": " << ::testing::PrintToString(found)
                                << " instead of " << ::testing::PrintToString(reported.back());
    // A file without a complete header does not count as a state file.
    if (reported.size() > 2) {
      EXPECT_THAT(world.problems, IsEmpty()) << where;
    }
    GoOn(world, where);
  });
}

TEST(StateLogCrashTest, AfterALossOfPowerItSaysWhatWasTrueAtTheLastSyncOrLater) {
  EndAtEachCall([](SavedWorld& world, const std::vector<Reported>& reported, size_t synced,
                   const std::string& where) {
    world.dice = Dice(std::hash<std::string>()(where));
    const Reported found = world.ReopenAfterPowerLoss();
    const auto first = reported.begin() + static_cast<ptrdiff_t>(std::max<size_t>(synced, 1) - 1);
    ASSERT_NE(std::find(first, reported.end(), found), reported.end())
        << where << ": " << ::testing::PrintToString(found);
    GoOn(world, where);
  });
}

TEST(StateLogCrashTest, RandomRunsWithCrashesSayWhatIsTrue) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    SavedWorld world(seed);
    world.compact_above = world.dice.OneOf({3000, 10000, 1000000});
    world.Open();
    std::vector<Reported> reported = {world.model.reported()};
    size_t synced = 0;  // Number of steps since the last loss of power that are certainly on disk.
    for (int run = 0; run < 12; ++run) {
      for (size_t steps = world.dice.Below(40); steps > 0; --steps) {
        const auto before = world.log->status().synced;
        world.RandomStep();
        reported.push_back(world.model.reported());
        if (world.log->status().synced != before) synced = reported.size() - 1;
      }
      ASSERT_EQ(world.log->status().error, "") << seed;
      const std::string where = "seed " + std::to_string(seed) + ", life " + std::to_string(run);
      if (world.dice.Chance(40)) {
        const Reported found = world.ReopenAfterPowerLoss();
        const auto first = reported.begin() + static_cast<ptrdiff_t>(synced);
        ASSERT_NE(std::find(first, reported.end(), found), reported.end())
            << where << ": " << ::testing::PrintToString(found);
        reported = {found};
        synced = 0;
      } else if (world.dice.Chance(70)) {
        ASSERT_EQ(world.Reopen(), reported.back()) << where;
      } else {
        world.Stop();
        reported.push_back(world.model.reported());
        ASSERT_EQ(world.Open(), reported.back()) << where;
        synced = reported.size() - 1;
      }
    }
  }
}

// Selects the file calls of Work() during which another thread may use the log. Work() makes the
// selected calls without the log's mutex. Calls from the last sync of a new file to its rename are
// not selected.
class Openings {
 public:
  bool IsOne(MemoryFiles::Call call) {
    const bool is_one = !locked_ && call != MemoryFiles::Call::kRename;
    if (call == MemoryFiles::Call::kOpen) writes_anew_ = true;
    if (call == MemoryFiles::Call::kSync && writes_anew_) locked_ = true;
    if (call == MemoryFiles::Call::kRename) writes_anew_ = locked_ = false;
    return is_one;
  }

 private:
  bool writes_anew_ = false;
  bool locked_ = false;
};

// Runs Work() and calls `act` during the file call with index `opening` among the calls that
// Openings selects. Returns false if Openings selects fewer calls.
bool WorkAnd(SavedWorld& world, size_t opening, const std::function<void()>& act) {
  Openings openings;
  size_t met = 0;
  bool inside = false, acted = false;
  world.files.SetPlan([&](size_t, MemoryFiles::Call call) {
    if (!inside && openings.IsOne(call) && met++ == opening) {
      inside = acted = true;
      act();
      inside = false;
    }
    return Fault{};
  });
  world.Work();
  world.files.SetPlan(nullptr);
  return acted;
}

// Prepares a log that is due for compaction, with or without an open attempt.
void MakeDue(SavedWorld& world, bool open) {
  world.Open();
  while (world.log->status().bytes < 8000) {
    world.RandomObjectChange();
    world.RandomStep();
  }
  world.compact_above = 4000;
  world.Reopen();
  while (world.model.open() != open) world.RandomStep();
}

TEST(StateLogCrashTest, WhatIsAppendedAtAnyTimeOfABackgroundRoundIsKept) {
  size_t compactions = 0;
  for (const bool open : {false, true}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      bool acted = true;
      for (size_t opening = 0; acted; ++opening) {
        SavedWorld world(seed);
        MakeDue(world, open);
        std::vector<Reported> reported = {world.model.reported()};
        const auto act = [&](int steps) {
          for (int i = 0; i < steps; ++i) {
            if (world.model.open()) {
              world.End(true, 5);
            } else {
              world.RandomObjectChange();
              world.Begin(world.RandomCommit());
            }
            reported.push_back(world.model.reported());
          }
        };
        acted = WorkAnd(world, opening, [&] { act(3); });
        reported.push_back(world.model.reported());
        act(4);  // The next calls write frames that contain the number of bytes on disk.
        compactions += world.log->status().compactions;
        const std::string where = "seed " + std::to_string(seed) + ", opening " +
                                  std::to_string(opening) + (open ? ", open" : "");
        ASSERT_EQ(SavedWorld().FoundIn(world.files), reported.back()) << where;
        world.dice = Dice(seed * 1000 + opening);
        const Reported found = world.ReopenAfterPowerLoss();
        ASSERT_NE(std::find(reported.begin(), reported.end(), found), reported.end())
            << where << ": " << ::testing::PrintToString(found);
      }
    }
  }
  EXPECT_GT(compactions, 10u);
}

TEST(StateLogCrashTest, AnOutageAtAnyTimeOfABackgroundRoundIsOverWithIt) {
  bool acted = true;
  for (size_t opening = 0; acted; ++opening) {
    SavedWorld world;
    MakeDue(world, false);
    acted = WorkAnd(world, opening, [&] {
      world.PutOutOfOrder();
      world.Rewrite();
      for (int i = 0; i < 3; ++i) {
        world.Begin(world.RandomCommit());
        world.End(true, 5);
      }
    });
    world.Work();
    ASSERT_EQ(world.log->status().error, "") << opening;
    world.Begin(world.RandomCommit());
    const Reported expected = world.model.reported();
    ASSERT_EQ(world.Reopen(), expected) << opening;
  }
}

}  // namespace
}  // namespace svcmap::proxy
