// Tests the threads of the object store with a disk that fails, hangs and loses its files.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "proxy/saved/object_store.h"
#include "tests/differential/dice.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"
#include "tests/unit/proxy/saved/faulty_vfs.h"

namespace svcmap::proxy::test {
namespace {

using std::chrono::milliseconds;
using svcmap::testing::WaitUntil;

TEST(ObjectStoreThreadTest, FailuresAndRecoveriesLoseNothing) {
  ASSERT_OK_AND_ASSIGN(const auto folder, svcmap::testing::TemporaryFolder::Make());
  FaultyVfs& disk = FaultyVfs::Get();
  ObjectStoreOptions options;
  options.vfs = FaultyVfs::kName;
  options.limit = options.sync_limit = milliseconds(20);
  options.sync_interval = options.first_retry = options.last_retry = milliseconds(1);
  std::atomic<int> calls = 0;
  options.on_problem = [&](const std::string&) { ++calls; };
  options.on_recovery = [&] { ++calls; };
  SavedObjects found;
  ASSERT_OK_AND_ASSIGN(auto store, ObjectStore::Open(folder.path(), options, &found));
  // Other threads read the status and save leaders all the time.
  std::atomic<bool> over = false;
  std::thread reader([&] {
    while (!over) EXPECT_LT(store->status().bytes, 100u << 20);
  });
  std::thread leaders([&] {
    for (uint64_t epoch = 1; !over; ++epoch) {
      store->SaveLeader({epoch, "name", "instance"}).IgnoreError();
      std::this_thread::yield();
    }
  });
  testing::Dice dice(1);
  std::string last;
  uint64_t revision = 0;
  const auto write = [&](bool everything) {
    store->Write({.everything = everything,
                  .objects = {{Kind::kService, "ns/web", last, 1}},
                  .revision = revision});
  };
  int recoveries = 0;
  while (recoveries < 30) {
    switch (dice.Below(4)) {
      case 0:
        disk.Hang(dice.Chance(50) ? FaultyVfs::Call::kSync : FaultyVfs::Call::kWrite);
        break;
      case 1:
        disk.SetFault([](FaultyVfs::Call) { return SQLITE_IOERR; });
        break;
      case 2:
        std::filesystem::remove(folder.path() + "/objects.db");
        break;
      default:
        break;
    }
    for (int i = 0; i < 20; ++i) {
      last = std::to_string(++revision);
      write(false);
      store->Await();
      if (store->needs_everything()) write(true);
    }
    disk.Release();
    if (store->works()) continue;
    ++recoveries;
    ASSERT_TRUE(WaitUntil([&] {
      if (store->needs_everything()) write(true);
      return store->works();
    }));
  }
  over = true;
  reader.join();
  leaders.join();
  ASSERT_TRUE(WaitUntil([&] {
    if (store->needs_everything()) write(true);
    return store->works() && store->Await();
  }));
  store.reset();
  ASSERT_OK_AND_ASSIGN(store, ObjectStore::Open(folder.path(), {}, &found));
  EXPECT_EQ(found.revision, revision);
  ASSERT_EQ(found.objects.size(), 1u);
  EXPECT_EQ(found.objects.front().message, last);
  EXPECT_GT(found.leader.epoch, 0u);
  EXPECT_GT(calls, 0);
}

}  // namespace
}  // namespace svcmap::proxy::test
