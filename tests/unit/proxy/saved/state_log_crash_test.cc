// Crashes at each call of a fixed history and of many random histories.
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

// State of the last call of the process.
struct End {
  const char* name;
  Fault fault;
};
const End kEnds[] = {{"before", {.crash = true}},
                     {"after", {.crash = true, .done = true}},
                     {"after a few bytes", {.crash = true, .bytes = 20}},
                     {"after some bytes", {.crash = true, .bytes = 100}}};

// Runs a history with all kinds of calls, including a compaction and a stop of the agent. Ends with
// the process. Appends the expected content of the file after each step to `said`. `synced` is the
// number of steps that are certainly on disk.
void Live(SavedWorld& world, std::vector<Said>& said, size_t& synced) {
  const auto step = [&](const std::function<void()>& act) {
    if (world.files.crashed()) return;
    act();
    said.push_back(world.model.said());
  };
  const auto work = [&] {
    if (world.files.crashed()) return;
    const auto before = world.log->status().synced;
    step([&] { world.Work(); });
    // The process may have been killed after the first sync.
    if (world.log->status().synced != before) synced = said.size();
  };
  const auto commit = [&] {
    step([&] { world.Begin(world.RandomCommit()); });
    step([&] { world.End(world.dice.Chance(80), world.RandomGeneration()); });
  };
  said.push_back({});
  world.compact_above = 4000;
  step([&] { world.Open(); });
  for (int round = 0; round < 4; ++round) {
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
      if (!world.files.crashed()) synced = said.size();
    }
  }
}

// Runs the history once for each of its calls, with a crash at this call, and then `check`.
void EndAtEachCall(const std::function<void(SavedWorld& world, const std::vector<Said>& said,
                                            size_t synced, const std::string& where)>& check) {
  SavedWorld whole;
  std::vector<Said> said;
  size_t synced = 0;
  Live(whole, said, synced);
  const size_t calls = whole.files.calls();
  ASSERT_GT(calls, 80u);
  ASSERT_GT(whole.log->status().compactions, 0u);
  for (size_t call = 0; call < calls; ++call) {
    for (const End& end : kEnds) {
      SavedWorld world;
      said.clear();
      synced = 0;
      world.files.SetPlan(
          [&](size_t number, MemoryFiles::Call) { return number == call ? end.fault : Fault{}; });
      Live(world, said, synced);
      ASSERT_TRUE(world.files.crashed());
      check(world, said, synced, "call " + std::to_string(call) + ", " + end.name);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// After the restart, the log works normally with the state found.
void GoOn(SavedWorld& world, const std::string& where) {
  for (int i = 0; i < 6; ++i) world.RandomStep();
  const Said expected = world.model.said();
  ASSERT_EQ(world.Reopen(), expected) << where;
  ASSERT_EQ(world.log->status().error, "") << where;
}

TEST(StateLogCrashTest, S342KilledAtAnyCallItSaysExactlyWhatWasTrue) {
  EndAtEachCall(
      [](SavedWorld& world, const std::vector<Said>& said, size_t, const std::string& where) {
        world.problems.clear();
        const Said found = world.Reopen();
        // The file contains the interrupted step or the step before it.
        const bool last = found == said.back();
        const bool before = found == said[said.size() - 2];
        ASSERT_TRUE(last || before) << where << ": " << ::testing::PrintToString(found)
                                    << " instead of " << ::testing::PrintToString(said.back());
        // Without a complete header, the file does not count as a state file.
        if (said.size() > 2) {
          EXPECT_THAT(world.problems, IsEmpty()) << where;
        }
        GoOn(world, where);
      });
}

TEST(StateLogCrashTest, AfterALossOfPowerItSaysWhatWasTrueAtTheLastSyncOrLater) {
  EndAtEachCall([](SavedWorld& world, const std::vector<Said>& said, size_t synced,
                   const std::string& where) {
    world.dice = Dice(std::hash<std::string>()(where));
    const Said found = world.ReopenAfterPowerLoss();
    const auto first = said.begin() + static_cast<ptrdiff_t>(std::max<size_t>(synced, 1) - 1);
    ASSERT_NE(std::find(first, said.end(), found), said.end())
        << where << ": " << ::testing::PrintToString(found);
    GoOn(world, where);
  });
}

TEST(StateLogCrashTest, RandomLivesWithCrashesSayWhatIsTrue) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SavedWorld world(seed);
    world.compact_above = world.dice.OneOf({3000, 10000, 1000000});
    world.Open();
    std::vector<Said> said = {world.model.said()};
    size_t synced = 0;  // Number of steps that are certainly on disk since the last loss of power.
    for (int life = 0; life < 12; ++life) {
      for (size_t steps = world.dice.Below(40); steps > 0; --steps) {
        const auto before = world.log->status().synced;
        world.RandomStep();
        said.push_back(world.model.said());
        if (world.log->status().synced != before) synced = said.size() - 1;
      }
      ASSERT_EQ(world.log->status().error, "") << seed;
      const std::string where = "seed " + std::to_string(seed) + ", life " + std::to_string(life);
      if (world.dice.Chance(40)) {
        const Said found = world.ReopenAfterPowerLoss();
        const auto first = said.begin() + static_cast<ptrdiff_t>(synced);
        ASSERT_NE(std::find(first, said.end(), found), said.end())
            << where << ": " << ::testing::PrintToString(found);
        said = {found};
        synced = 0;
      } else if (world.dice.Chance(70)) {
        ASSERT_EQ(world.Reopen(), said.back()) << where;
      } else {
        world.Stop();
        said.push_back(world.model.said());
        ASSERT_EQ(world.Open(), said.back()) << where;
        synced = said.size() - 1;
      }
    }
  }
}

// The calls during Work() at which the log's user may act on its own thread: all calls without the
// log's mutex, except between the last sync of a new file and its rename.
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

// Runs Work() and calls `act` at the opening with this number. Returns false if there are fewer
// openings.
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

// Prepares a file that is due for compaction, with or without an open attempt.
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
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      bool acted = true;
      for (size_t opening = 0; acted; ++opening) {
        SavedWorld world(seed);
        MakeDue(world, open);
        std::vector<Said> said = {world.model.said()};
        const auto act = [&](int steps) {
          for (int i = 0; i < steps; ++i) {
            if (world.model.open()) {
              world.End(true, 5);
            } else {
              world.RandomObjectChange();
              world.Begin(world.RandomCommit());
            }
            said.push_back(world.model.said());
          }
        };
        acted = WorkAnd(world, opening, [&] { act(3); });
        said.push_back(world.model.said());
        act(4);  // These frames contain the number of bytes on disk.
        compactions += world.log->status().compactions;
        const std::string where = "seed " + std::to_string(seed) + ", opening " +
                                  std::to_string(opening) + (open ? ", open" : "");
        ASSERT_EQ(SavedWorld().FoundIn(world.files), said.back()) << where;
        world.dice = Dice(seed * 1000 + opening);
        const Said found = world.ReopenAfterPowerLoss();
        ASSERT_NE(std::find(said.begin(), said.end(), found), said.end())
            << where << ": " << ::testing::PrintToString(found);
      }
    }
  }
  EXPECT_GT(compactions, 100u);
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
    const Said expected = world.model.said();
    ASSERT_EQ(world.Reopen(), expected) << opening;
  }
}

}  // namespace
}  // namespace svcmap::proxy
