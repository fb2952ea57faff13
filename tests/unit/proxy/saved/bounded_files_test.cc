#include "proxy/saved/bounded_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "proxy/saved/leader_file.h"
#include "proxy/saved/state_log.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"
#include "tests/unit/proxy/saved/memory_files.h"

namespace svcmap::proxy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using svcmap::testing::WaitUntil;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Call = test::MemoryFiles::Call;
using Clock = std::chrono::steady_clock;

// A disk on which certain kinds of calls block until the disk recovers.
class HungDisk {
 public:
  void Hang(std::vector<Call> calls) {
    const std::lock_guard lock(mutex_);
    hung_ = std::move(calls);
  }
  void Recover() {
    const std::lock_guard lock(mutex_);
    hung_.clear();
    changed_.notify_all();
  }
  void WaitFor(Call call) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::find(hung_.begin(), hung_.end(), call) == hung_.end(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> hung_;
};

// Files on a HungDisk. File calls must block before they reach MemoryFiles, because MemoryFiles
// holds its lock while it calls the fault plan.
class HangingFiles : public Files {
 public:
  HangingFiles(Files& files, HungDisk& disk) : files_(files), disk_(disk) {}

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    disk_.WaitFor(Call::kOpen);
    auto file = files_.Open(path, mode);
    if (!file.ok()) return file;
    return std::make_unique<HangingFile>(*std::move(file), disk_);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    disk_.WaitFor(Call::kRename);
    return files_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    disk_.WaitFor(Call::kRemove);
    return files_.Remove(path);
  }
  absl::Status MakeFolder(const std::string& path) override { return files_.MakeFolder(path); }
  absl::Status CheckFolder(const std::string& path) override { return files_.CheckFolder(path); }
  absl::Status SyncFolder(const std::string& path) override {
    disk_.WaitFor(Call::kSyncFolder);
    return files_.SyncFolder(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    return files_.List(folder);
  }

 private:
  class HangingFile : public File {
   public:
    HangingFile(std::unique_ptr<File> file, HungDisk& disk) : file_(std::move(file)), disk_(disk) {}
    absl::StatusOr<size_t> Read(uint64_t offset, std::span<char> into) override {
      disk_.WaitFor(Call::kRead);
      return file_->Read(offset, into);
    }
    absl::Status Append(std::string_view bytes) override {
      disk_.WaitFor(Call::kAppend);
      return file_->Append(bytes);
    }
    absl::Status Sync() override {
      disk_.WaitFor(Call::kSync);
      return file_->Sync();
    }
    absl::StatusOr<uint64_t> Size() override { return file_->Size(); }
    absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
    absl::StatusOr<bool> HasName() override { return file_->HasName(); }
    absl::Status Lock() override { return file_->Lock(); }

   private:
    std::unique_ptr<File> file_;
    HungDisk& disk_;
  };

  Files& files_;
  HungDisk& disk_;
};

class BoundedFilesTest : public ::testing::Test {
 protected:
  ~BoundedFilesTest() override { disk_.Recover(); }

  static void ExpectWithin(milliseconds limit, const std::function<void()>& fn) {
    const auto start = Clock::now();
    fn();
    EXPECT_LT(Clock::now() - start, limit);
  }

  struct Disk {
    HungDisk calls;
    test::MemoryFiles memory;
    HangingFiles hanging{memory, calls};
  };
  // Creates a disk that is never deleted, because a detached thread may use the disk after the end
  // of the test.
  static Disk& NewDisk() {
    static auto& disks = *new std::vector<std::unique_ptr<Disk>>();
    return *disks.emplace_back(std::make_unique<Disk>());
  }

  Disk& all_ = NewDisk();
  HungDisk& disk_ = all_.calls;
  test::MemoryFiles& memory_ = all_.memory;
  HangingFiles& hanging_ = all_.hanging;
  std::unique_ptr<Files> files_ = MakeBoundedFiles(
      hanging_, {.write = milliseconds(50), .sync = milliseconds(200), .other = milliseconds(50)});
};

TEST_F(BoundedFilesTest, CallsOfADiskThatAnswersHaveTheirResults) {
  ASSERT_OK(files_->MakeFolder("/state"));
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/state/f", OpenMode::kCreate));
  ASSERT_OK(file->Append("hello"));
  ASSERT_OK(file->Sync());
  char bytes[8] = {};
  ASSERT_OK_AND_ASSIGN(const size_t read, file->Read(1, bytes));
  EXPECT_EQ(std::string(bytes, read), "ello");
  EXPECT_TRUE(absl::IsNotFound(files_->Open("/state/none", OpenMode::kRead).status()));
}

TEST_F(BoundedFilesTest, ACallOfAHungDiskFailsAndTheNextOnesFailAtOnce) {
  ASSERT_OK(files_->MakeFolder("/state"));
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/state/f", OpenMode::kCreate));
  disk_.Hang({Call::kAppend});
  const absl::Status status = file->Append("x");
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("write: no response from the disk for "));
  ExpectWithin(milliseconds(1000), [&] {
    for (int i = 0; i < 1000; ++i) EXPECT_FALSE(file->Append("x").ok());
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(files_->Remove("/state/f")));
  disk_.Recover();
  EXPECT_TRUE(WaitUntil([&] { return file->Append("y").ok(); }));
}

TEST_F(BoundedFilesTest, TheLogOfAHungDiskReportsItAndRecovers) {
  SavedState found;
  std::mutex mutex;
  std::vector<std::string> problems;
  ASSERT_OK_AND_ASSIGN(const auto log, StateLog::Open("/state", *files_, &found,
                                                      {.first_retry = milliseconds(1),
                                                       .last_retry = milliseconds(10),
                                                       .on_problem = [&](const std::string& line) {
                                                         const std::lock_guard lock(mutex);
                                                         problems.push_back(line);
                                                       }}));
  disk_.Hang({Call::kAppend, Call::kSync, Call::kRename, Call::kRemove, Call::kOpen});
  ExpectWithin(seconds(2), [&] {
    for (uint32_t i = 1; i <= 100; ++i) {
      log->Begin({.marker = {i, i}});
      log->End(true, i);
      log->Flush();
      EXPECT_LE(log->status().failures, 1u);
    }
  });
  EXPECT_THAT(log->status().error, HasSubstr("no response from the disk"));
  {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(problems, ElementsAre(HasSubstr("no response from the disk")));
  }
  disk_.Recover();
  EXPECT_TRUE(WaitUntil([&] {
    if (log->needs_everything()) log->Rewrite([](const auto&) {}, nullptr, {});
    return log->status().error.empty();
  })) << log->status().error;
  log->Stop();
}

TEST_F(BoundedFilesTest, AHungDiskDoesNotBlockTheEpochsFile) {
  ASSERT_OK(files_->MakeFolder("/state"));
  LeaderFile leader("/state", *files_);
  ASSERT_OK(leader.Save({1, "a", ""}));
  disk_.Hang({Call::kSync});
  EXPECT_TRUE(absl::IsDeadlineExceeded(leader.Save({2, "b", ""})));
  EXPECT_TRUE(absl::IsDeadlineExceeded(leader.Load().status()));
}

}  // namespace
}  // namespace svcmap::proxy
