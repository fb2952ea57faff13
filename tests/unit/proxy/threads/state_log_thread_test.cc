// Tests the state log with its background thread: appends during syncs, compactions, failures and
// recoveries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "tests/support/wait.h"
#include "tests/unit/proxy/saved/saved_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

class StateLogThreadTest : public ::testing::Test, protected SavedWorld {
 protected:
  void Start() {
    StateLogOptions options = Options();
    options.own_thread = true;
    options.sync_interval = std::chrono::milliseconds(0);
    options.compact_above = 10000;
    options.on_problem = [this](const std::string&) { ++reported_; };
    options.on_recovery = [this] { ++recovered_; };
    SavedState found;
    auto opened = StateLog::Open(kFolder, files, &found, options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    log = *std::move(opened);
    model.StartFrom(SaidBy(std::move(found)));
  }
  // Makes a random call to the log, as the loop does. The log's thread calls Work().
  void Step() {
    if (model.open()) return End(dice.Chance(80), RandomGeneration());
    for (size_t i = dice.Below(3); i > 0; --i) RandomObjectChange();
    dice.Chance(10) ? NoteGeneration(static_cast<uint32_t>(dice.Number())) : Begin(RandomCommit());
  }
  bool AtDeadline() const { return std::chrono::steady_clock::now() > deadline_; }

  const std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + svcmap::testing::kHangLimit;
  std::atomic<int> reported_ = 0;
  std::atomic<int> recovered_ = 0;
};

TEST_F(StateLogThreadTest, AppendsWhileTheFileIsRewritten) {
  Start();
  // Another thread continuously reads the status.
  std::atomic<bool> over = false;
  std::thread reader([&] {
    while (!over) EXPECT_EQ(log->status().error, "");
  });
  while (log->status().compactions < 8 && !AtDeadline()) {
    for (int i = 0; i < 20; ++i) Step();
  }
  over = true;
  reader.join();
  EXPECT_GE(log->status().compactions, 8u);
  Stop();
  const Reported expected = model.reported();
  EXPECT_EQ(Open(), expected);
  EXPECT_EQ(reported_, 0);
}

TEST_F(StateLogThreadTest, KilledWhileTheFileIsRewrittenItSaysWhatIsTrue) {
  for (int run = 0; run < 10 && !AtDeadline(); ++run) {
    Start();
    const uint64_t wanted = dice.Below(4);
    while (log->status().compactions < wanted && !AtDeadline()) Step();
    Step();
    const Reported expected = model.reported();
    Reported found = Reopen();
    // The file may lack the last generation.
    found.is.generation = expected.is.generation;
    if (found.may_be && expected.may_be) found.may_be->generation = expected.may_be->generation;
    ASSERT_EQ(found, expected) << run;
    Kill();
  }
}

TEST_F(StateLogThreadTest, FailsAndRecoversWhileAppending) {
  Start();
  std::atomic<bool> broken = false;
  std::atomic<unsigned> number = 0;
  files.SetPlan([&](size_t, MemoryFiles::Call) {
    return MemoryFiles::Fault{.error = broken && ++number % 3 == 0 ? ENOSPC : 0};
  });
  while (recovered_ < 10 && !AtDeadline()) {
    for (int i = 0; i < 50; ++i) {
      Step();
      broken = dice.Chance(30);
      if (!model.open() && log->needs_everything()) Rewrite();
    }
  }
  EXPECT_GE(recovered_, 10);
  files.SetPlan(nullptr);
  if (model.open()) End(true, 1);
  EXPECT_TRUE(testing::WaitUntil([&] {
    if (log->needs_everything()) Rewrite();
    return log->status().error.empty();
  }));
  Stop();
  const Reported expected = model.reported();
  EXPECT_EQ(Open(), expected);
}

TEST_F(StateLogThreadTest, WhatWasWrittenIsOnDiskSoon) {
  Start();
  while (!model.open()) Step();
  End(true, 1);
  EXPECT_TRUE(testing::WaitUntil([&] { return files.IsSynced(kPath); }));
  const Reported expected = model.reported();
  EXPECT_EQ(ReopenAfterPowerLoss(), expected);
}

}  // namespace
}  // namespace svcmap::proxy
