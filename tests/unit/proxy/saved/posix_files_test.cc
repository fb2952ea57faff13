// Tests of the state log on real files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "proxy/saved/state_log.h"
#include "tests/support/status_matchers.h"

namespace svcmap::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PosixFilesTest : public ::testing::Test {
 protected:
  PosixFilesTest() {
    std::string pattern = ::testing::TempDir() + "svcmap-state-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    top_ = pattern;
  }
  ~PosixFilesTest() override { std::filesystem::remove_all(top_); }

  std::string Folder() const { return top_ + "/svcmap"; }
  std::unique_ptr<StateLog> Open(SavedState* found, std::string folder = "") {
    auto log = StateLog::Open(
        folder.empty() ? Folder() : folder, PosixFiles(), found,
        {.writer = "test",
         .sync_interval = std::chrono::milliseconds(1),
         .first_retry = std::chrono::milliseconds(0),
         .compact_above = 20000,
         .on_problem = [this](const std::string& line) { problems_.push_back(line); }});
    EXPECT_OK(log);
    return log.ok() ? *std::move(log) : nullptr;
  }

  std::string top_;
  std::vector<std::string> problems_;
};

// Returns the rows of the commit with the given number.
ServiceRows RowsOf(uint32_t number) {
  ServiceRows rows;
  rows.cluster_ips = {*IpAddress::Parse("10.96.0.1")};
  rows.ports.emplace_back().cluster.group = number;
  return rows;
}
std::string KeyOf(uint32_t number) { return "ns/" + std::to_string(number % 20); }

void Begin(StateLog& log, uint32_t number) {
  const ServiceRows rows = RowsOf(number);
  log.PutObject(Kind::kService, KeyOf(number), std::to_string(number), 0);
  log.Begin({.marker = {number, number}, .services = {{KeyOf(number), &rows}}});
}

TEST_F(PosixFilesTest, OnlyTheOwnerMayReadThem) {
  SavedState found;
  auto log = Open(&found);
  struct stat info = {};
  ASSERT_EQ(stat(Folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat((Folder() + "/state").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(PosixFilesTest, AFolderIsLockedUntilStop) {
  SavedState found;
  auto log = Open(&found);
  EXPECT_EQ(StateLog::Open(Folder(), PosixFiles(), &found, {}).status(),
            absl::FailedPreconditionError("another agent uses the folder " + Folder()));
  log->Stop();
  EXPECT_NE(Open(&found), nullptr);
}

TEST_F(PosixFilesTest, AFolderThatCannotBeMadeIsReported) {
  SavedState found;
  const std::string file = top_ + "/no";
  std::ofstream(file) << "a file";
  auto log = Open(&found, file + "/such");
  EXPECT_THAT(problems_,
              ElementsAre("saving the state failed, traffic is not affected, but after a restart "
                          "svcmapd does not modify the rules until a controller sends a snapshot "
                          "path=" +
                          file + "/such error=\"create folder " + file +
                          "/such: Not a directory (ENOTDIR)\""));
  // After the removal of this file, the folder and its parents can be created.
  std::filesystem::remove(file);
  ASSERT_TRUE(log->needs_everything());
  log->Rewrite([](const StateLog::PutObjectFn& put) { put(Kind::kNode, "n", "m", 0); }, nullptr,
               {});
  log->Stop();
  log = Open(&found, top_ + "/no/such");
  EXPECT_EQ(found.objects.size(), 1u);
}

TEST_F(PosixFilesTest, ReplacedFilesOfOtherUsersAreReportedWithTheReason) {
  std::vector<std::string> reports;
  ReportReplacedFiles([&](const std::string& reason) { reports.push_back(reason); });
  Files& files = PosixFiles();
  const std::string path = top_ + "/file";
  const auto make_fifo = [&] {
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  };
  make_fifo();
  EXPECT_OK(files.Open(path, OpenMode::kCreate));
  make_fifo();
  EXPECT_OK(files.Open(path, OpenMode::kLock));
  make_fifo();
  EXPECT_OK(files.Remove(path));
  make_fifo();
  EXPECT_OK(files.Open(path + ".new", OpenMode::kCreate));
  EXPECT_OK(files.Rename(path + ".new", path));
  const std::string reason = path + " is not a regular file";
  EXPECT_THAT(reports, ElementsAre(reason, reason, reason, reason));
  reports.clear();

  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_OK(files.Open(path, OpenMode::kCreate));
  EXPECT_THAT(reports, ElementsAre(path + " is writable by other users"));
  reports.clear();
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/etc/passwd", path);
  EXPECT_OK(files.Remove(path));
  EXPECT_THAT(reports, ElementsAre(path + " is a symbolic link"));
  reports.clear();

  // svcmapd's own files are replaced without a report.
  EXPECT_OK(files.Open(path, OpenMode::kCreate));
  EXPECT_OK(files.Open(path, OpenMode::kLock));
  EXPECT_OK(files.Open(path, OpenMode::kCreate));
  EXPECT_OK(files.Remove(path));
  EXPECT_THAT(reports, IsEmpty());
  ReportReplacedFiles(nullptr);
}

TEST_F(PosixFilesTest, ErrorsNameTheCallAndThePath) {
  Files& files = PosixFiles();
  EXPECT_EQ(files.Open("/no/state", OpenMode::kUpdate).status(),
            absl::NotFoundError("open /no/state: No such file or directory (ENOENT)"));
  EXPECT_EQ(files.Rename("/no/a", "/no/b").message(),
            "rename /no/a to /no/b: No such file or directory (ENOENT)");
  EXPECT_EQ(files.Remove("/no/a").message(), "remove /no/a: No such file or directory (ENOENT)");
  EXPECT_EQ(files.SyncFolder("/no").message(),
            "sync folder /no: No such file or directory (ENOENT)");
  EXPECT_EQ(files.List("/no").status().message(), "list /no: No such file or directory (ENOENT)");
  EXPECT_OK(files.MakeFolder(top_));
  const rlimit none = {0, RLIM_INFINITY};
  rlimit before = {};
  signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_OK_AND_ASSIGN(const auto full, files.Open(top_ + "/full", OpenMode::kCreate));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  EXPECT_EQ(full->Append("x").message(), "write: File too large (EFBIG)");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST_F(PosixFilesTest, ObjectsThatAnotherUserMayHaveMadeAreDataLoss) {
  Files& files = PosixFiles();
  const std::string path = top_ + "/state";
  const auto error = [&] { return files.Open(path, OpenMode::kUpdate).status(); };
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error(), absl::DataLossError(path + " is not a regular file"));
  EXPECT_EQ(files.Open(path, OpenMode::kRead).status(), error());
  EXPECT_EQ(files.Open("/dev/full", OpenMode::kUpdate).status(),
            absl::DataLossError("/dev/full is not a regular file"));
  ASSERT_OK(files.Remove(path));
  std::filesystem::create_symlink("/etc/passwd", path);
  EXPECT_EQ(error(), absl::DataLossError(path + " is a symbolic link"));
  ASSERT_OK(files.Remove(path));
  std::ofstream(path) << "text";
  ASSERT_EQ(chmod(path.c_str(), 0620), 0);
  EXPECT_EQ(error(), absl::DataLossError(path + " is writable by other users"));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_OK(error());
  std::filesystem::create_hard_link(path, top_ + "/other");
  EXPECT_EQ(error(), absl::DataLossError(path + " has more than one hard link"));
  // kCreate replaces only this hard link, and does not change the content of the other hard link.
  EXPECT_OK(files.Open(path, OpenMode::kCreate));
  EXPECT_EQ(std::filesystem::file_size(top_ + "/other"), 4u);
}

// Makes commits until the process is killed. Reports each committed number to the parent process
// through `pipe`.
[[noreturn]] void CommitUntilKilled(StateLog& log, uint32_t number, int pipe) {
  for (;; ++number) {
    Begin(log, number);
    log.End(true, number);
    log.Flush();
    if (write(pipe, &number, sizeof(number)) != sizeof(number)) _exit(1);
  }
}

TEST_F(PosixFilesTest, S342KilledAtRandomItSaysExactlyWhatWasTrue) {
  std::mt19937 random(1);
  uint32_t last = 0;
  for (int run = 0; run < 8; ++run) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      SavedState found;
      auto log = Open(&found);
      if (found.attempt) log->End(false, 0);
      CommitUntilKilled(*log, last + 1, ends[1]);
    }
    close(ends[1]);
    // Wait for a random number of commits, then kill the process at a random time.
    uint32_t number = last;
    for (uint32_t commits = 1 + random() % 500; commits > 0; --commits) {
      ASSERT_EQ(read(ends[0], &number, sizeof(number)), static_cast<ssize_t>(sizeof(number)));
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    while (read(ends[0], &number, sizeof(number)) == static_cast<ssize_t>(sizeof(number))) {
    }
    close(ends[0]);

    SavedState found;
    auto log = Open(&found);
    const bool last_committed = found.marker == Marker{number + 1, number + 1};
    ASSERT_TRUE(last_committed || found.marker == (Marker{number, number})) << number;
    if (last_committed) ++number;
    ASSERT_EQ(found.generation, number);
    if (found.attempt) {
      ASSERT_EQ(found.attempt->marker, (Marker{number + 1, number + 1}));
      log->End(false, number);
    }
    for (const auto& [key, rows] : found.services) {
      const uint32_t group = rows.ports.at(0).cluster.group;
      ASSERT_EQ(key, KeyOf(group));
      ASSERT_LE(group, number);
      ASSERT_GT(group + 20, number);
      ASSERT_EQ(rows, RowsOf(group));
    }
    ASSERT_EQ(found.services.size(), std::min<size_t>(number, 20));
    log->Stop();
    last = number;
  }
  EXPECT_THAT(problems_, IsEmpty());
}

}  // namespace
}  // namespace svcmap::proxy
