// Tests of the object store: its content after a restart, after a kill of the process, after
// damage, and its behaviour with a disk that is full, read-only, hung or failing.
#include "proxy/saved/object_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/differential/dice.h"
#include "tests/support/netns.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"
#include "tests/unit/proxy/saved/faulty_vfs.h"

namespace svcmap::proxy::test {
namespace {

using std::chrono::milliseconds;
using svcmap::testing::Dice;
using svcmap::testing::MountNs;
using svcmap::testing::TemporaryFolder;
using svcmap::testing::WaitUntil;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::PrintToString;
namespace fs = std::filesystem;

using Objects = std::map<std::pair<Kind, std::string>, std::pair<std::string, uint64_t>>;

Objects ObjectsOf(const SavedObjects& saved) {
  Objects objects;
  for (const SavedObject& object : saved.objects) {
    EXPECT_TRUE(objects
                    .emplace(std::pair(object.kind, object.key),
                             std::pair(*object.message, object.first_seen))
                    .second)
        << object.key << " is saved twice";
  }
  return objects;
}

constexpr uint64_t kKeys = 40;
// Change number `revision` changes two objects and removes one.
void ApplyChange(uint64_t revision, Objects& objects,
                 const std::function<void(Kind, const std::string&, const std::string*)>& report) {
  const auto key = [](uint64_t number) { return "ns/object-" + std::to_string(number % kKeys); };
  const std::string message =
      std::string(200 + revision * 37 % 3000, static_cast<char>('a' + revision % 26)) +
      std::to_string(revision);
  for (const auto& [kind, name] : {std::pair(Kind::kService, key(revision * 7)),
                                   std::pair(Kind::kEndpointSlice, key(revision * 11))}) {
    objects[{kind, name}] = {message, kind == Kind::kService ? revision : 0};
    report(kind, name, &message);
  }
  const std::string removed = key(revision * 3 + 1);
  objects.erase({Kind::kService, removed});
  report(Kind::kService, removed, nullptr);
}

// Objects that do not change are a part of the first change.
Objects ObjectsThatStay() {
  Objects objects;
  for (int i = 0; i < 200; ++i) {
    objects[{Kind::kNode, "node-" + std::to_string(i)}] = {std::string(1000, 'n'), 0};
  }
  return objects;
}

Objects ObjectsAt(uint64_t revision) {
  Objects objects;
  if (revision > 0) objects = ObjectsThatStay();
  for (uint64_t i = 1; i <= revision; ++i) {
    ApplyChange(i, objects, [](Kind, const std::string&, const std::string*) {});
  }
  return objects;
}

SavedBatch Everything(const Objects& objects, uint64_t revision) {
  SavedBatch batch{.everything = true, .revision = revision};
  for (const auto& [key, value] : objects) {
    batch.objects.push_back({key.first, key.second, value.first, value.second});
  }
  return batch;
}

void WriteChange(uint64_t revision, Objects& objects, ObjectStore& store) {
  SavedBatch batch;
  if (revision == 1) {
    objects = ObjectsThatStay();
    batch = Everything(objects, 0);
    batch.everything = false;
  }
  batch.revision = revision;
  ApplyChange(revision, objects,
              [&](Kind kind, const std::string& key, const std::string* message) {
                SavedObject& object = batch.objects.emplace_back();
                object = {.kind = kind, .key = key};
                if (message == nullptr) return;
                object.message = *message;
                object.first_seen = kind == Kind::kService ? revision : 0;
              });
  store.Write(std::move(batch));
}

class ObjectStoreTest : public ::testing::Test {
 protected:
  ObjectStoreTest() : folder_(TemporaryFolder::Make().value()), path_(folder_.path() + "/state") {}
  ~ObjectStoreTest() override { FaultyVfs::Get().Release(); }

  ObjectStoreOptions Options() {
    ObjectStoreOptions options;
    options.sync_interval = milliseconds(10);
    options.first_retry = options.last_retry = milliseconds(1);
    options.on_problem = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      problems_.push_back(line);
    };
    options.on_shared_folder = [this](const std::string& reason) { shared_ = reason; };
    options.on_recovery = [this] { ++recoveries_; };
    return options;
  }
  // Opens the store as in a new run of svcmapd.
  void Open() { Open(Options()); }
  void Open(ObjectStoreOptions options) {
    store_.reset();
    auto opened = ObjectStore::Open(path_, std::move(options), &found_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  ObjectStoreOptions Faulty() {
    FaultyVfs::Get();
    ObjectStoreOptions options = Options();
    options.vfs = FaultyVfs::kName;
    return options;
  }
  void WriteNext() { WriteChange(++revision_, objects_, *store_); }
  // Opens a store whose second write hangs. The first one is complete.
  void HangDuringWrite() {
    ObjectStoreOptions options = Faulty();
    options.limit = milliseconds(50);
    Open(options);
    WriteNext();
    EXPECT_TRUE(store_->Await());
    FaultyVfs::Get().Hang(FaultyVfs::Call::kWrite);
    WriteNext();
  }
  // Rewrites as soon as the store requests it, until saving works.
  void Recover() {
    ASSERT_TRUE(WaitUntil([&] {
      if (store_->needs_everything()) store_->Write(Everything(objects_, revision_));
      return store_->works();
    })) << store_->status().error;
  }
  void ExpectSaved() {
    Open();
    EXPECT_EQ(found_.revision, revision_) << PrintToString(problems());
    EXPECT_TRUE(ObjectsOf(found_) == objects_) << PrintToString(problems());
  }
  std::vector<std::string> problems() {
    const std::lock_guard lock(mutex_);
    return problems_;
  }
  std::string File() const { return path_ + "/objects.db"; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_))
      names.push_back(entry.path().filename());
    return names;
  }

  const TemporaryFolder folder_;
  const std::string path_;
  std::mutex mutex_;
  std::vector<std::string> problems_;
  std::string shared_;
  std::atomic<int> recoveries_ = 0;
  SavedObjects found_;
  std::unique_ptr<ObjectStore> store_;
  Objects objects_;
  uint64_t revision_ = 0;
};

TEST_F(ObjectStoreTest, S342EverythingComesBackAsItWas) {
  Open();
  EXPECT_THAT(found_.objects, IsEmpty());
  EXPECT_EQ(found_.revision, 0);
  EXPECT_EQ(found_.leader, Leader());
  const std::string binary("\0\xff\n'", 4);
  store_->Write({.objects = {{Kind::kService, "ns/a", binary, 5},
                             {Kind::kEndpointSlice, "ns/a", "", 0},
                             {Kind::kNode, "node", "n", 0},
                             {Kind::kServiceCidr, "cidr", std::string(3 << 20, 'c'), 0}},
                 .partial = true,
                 .revision = 7});
  store_->Write(
      {.objects = {{Kind::kNode, "node", std::nullopt, 0}}, .partial = true, .revision = 8});
  EXPECT_TRUE(store_->Await());
  EXPECT_OK(store_->SaveLeader({UINT64_MAX, "svcmap-kube", "pod-7"}));

  Open();
  EXPECT_EQ(ObjectsOf(found_),
            (Objects{{{Kind::kService, "ns/a"}, {binary, 5}},
                     {{Kind::kEndpointSlice, "ns/a"}, {"", 0}},
                     {{Kind::kServiceCidr, "cidr"}, {std::string(3 << 20, 'c'), 0}}}));
  EXPECT_TRUE(found_.partial);
  EXPECT_EQ(found_.revision, 8);
  EXPECT_EQ(found_.leader, (Leader{UINT64_MAX, "svcmap-kube", "pod-7"}));

  store_->Write({.partial = false, .revision = 8});
  Open();
  EXPECT_FALSE(found_.partial);
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(ObjectStoreTest, ChangesOnDiskAreReported) {
  Open();
  WriteNext();
  EXPECT_TRUE(store_->Await());
  EXPECT_TRUE(WaitUntil([&] { return store_->status().synced.time_since_epoch().count() > 0; }));
  EXPECT_GT(store_->status().bytes, 4096);
  EXPECT_EQ(store_->status().error, "");
}

TEST_F(ObjectStoreTest, OnlyOneAgentUsesAFolder) {
  Open();
  SavedObjects found;
  const absl::Status second = ObjectStore::Open(path_, Options(), &found).status();
  EXPECT_EQ(second, absl::FailedPreconditionError("another agent uses the folder " + path_));
  EXPECT_TRUE(absl::IsFailedPrecondition(RemoveSavedState(path_).status()));
  store_.reset();
  EXPECT_OK(ObjectStore::Open(path_, Options(), &found));
}

TEST_F(ObjectStoreTest, OtherUsersCannotReadTheFiles) {
  const mode_t mask = ::umask(0);
  Open();
  WriteNext();
  EXPECT_TRUE(store_->Await());
  ::umask(mask);
  for (const auto& entry : fs::directory_iterator(path_)) {
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << entry.path();
  }
  EXPECT_THAT(shared_, IsEmpty());
  fs::permissions(path_, fs::perms::all);
  Open();
  EXPECT_EQ(shared_, "mode 0777");
}

TEST_F(ObjectStoreTest, FilesOfOtherUsersAreNotUsed) {
  for (const std::string name : {"objects.db", "objects.db-wal", "objects.db-journal"}) {
    for (const bool symbolic : {false, true}) {
      SCOPED_TRACE(name + (symbolic ? ", symbolic" : ", hard"));
      Open();
      WriteNext();
      store_.reset();
      const std::string victim = folder_.path() + "/victim";
      std::ofstream(victim) << "content of another program";
      fs::remove(path_ + "/" + name);
      if (symbolic) {
        fs::create_symlink(victim, path_ + "/" + name);
      } else {
        fs::create_hard_link(victim, path_ + "/" + name);
      }
      problems_.clear();
      Open();
      EXPECT_THAT(found_.objects, IsEmpty());
      EXPECT_THAT(problems(), ElementsAre(HasSubstr(symbolic ? "is a symbolic link"
                                                             : "has more than one hard link")));
      EXPECT_TRUE(store_->works());
      EXPECT_EQ(fs::file_size(victim), 26);
    }
  }
}

TEST_F(ObjectStoreTest, AFolderBehindASymbolicLinkIsUsed) {
  fs::create_directory(folder_.path() + "/real");
  fs::create_symlink("real", path_);
  Open();
  WriteNext();
  ExpectSaved();
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(ObjectStoreTest, CleanUpRemovesOnlyFilesOfTheStore) {
  ASSERT_OK_AND_ASSIGN(const bool removed_none, RemoveSavedState(path_));
  EXPECT_FALSE(removed_none);
  Open();
  WriteNext();
  store_.reset();
  std::ofstream(path_ + "/other") << "x";
  ASSERT_OK_AND_ASSIGN(const bool removed, RemoveSavedState(path_));
  EXPECT_TRUE(removed);
  EXPECT_THAT(Names(), ::testing::ElementsAre("other"));
  ASSERT_OK_AND_ASSIGN(const bool removed_again, RemoveSavedState(path_));
  EXPECT_FALSE(removed_again);
}

// The log would grow forever if it started again only when it is empty by chance.
TEST_F(ObjectStoreTest, WithoutAPauseALongLogStartsAgain) {
  // The header of the log contains a number that grows each time.
  const auto starts = [this] {
    constexpr std::streamoff kNumber = 12;
    uint32_t number = 0;
    std::ifstream log(File() + "-wal", std::ios::binary);
    log.seekg(kNumber).read(reinterpret_cast<char*>(&number), sizeof(number));
    return be32toh(number);
  };
  constexpr uint64_t kLong = 64 << 20;
  constexpr int kMany = 200'000;
  Open();
  std::optional<uint32_t> when_long;  // The number of a log that has become long.
  int written = 0;
  for (; written < kMany && (!when_long || starts() == *when_long); ++written) {
    WriteNext();
    if (written % 10 == 0) ASSERT_TRUE(store_->Await()) << written << store_->status().error;
    if (!when_long && fs::file_size(File() + "-wal") > kLong) when_long = starts();
  }
  if (when_long) {
    EXPECT_NE(starts(), *when_long) << "after " << written << " writes";
  }
  ExpectSaved();
}

TEST_F(ObjectStoreTest, TheFileBecomesSmallerAfterRemovals) {
  Open();
  SavedBatch batch{.revision = 1};
  for (int i = 0; i < 1000; ++i) {
    batch.objects.push_back({Kind::kService, "ns/" + std::to_string(i), std::string(1000, 'x'), 1});
  }
  store_->Write(batch);
  Open();
  const uint64_t before = fs::file_size(File());
  for (SavedObject& object : batch.objects) object.message.reset();
  store_->Write(batch);
  store_.reset();
  EXPECT_LT(fs::file_size(File()), before / 10);
}

// Kills.

// Runs `child` in another process until it is killed after `time`, or kills itself if there is no
// `time`. Returns the numbers that `child` has reported.
std::vector<uint64_t> RunAndKill(std::optional<milliseconds> time,
                                 const std::function<void(std::function<void(uint64_t)>)>& child) {
  int pipe[2];
  EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    child([&](uint64_t number) {
      if (::write(pipe[1], &number, sizeof(number)) < 0) _exit(1);
    });
    _exit(1);
  }
  ::close(pipe[1]);
  if (time) {
    std::this_thread::sleep_for(*time);  // The child is killed at a random moment.
    ::kill(pid, SIGKILL);
  }
  std::vector<uint64_t> numbers;
  uint64_t number = 0;
  while (::read(pipe[0], &number, sizeof(number)) == sizeof(number)) numbers.push_back(number);
  ::close(pipe[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  return numbers;
}

class ObjectStoreKillTest : public ObjectStoreTest {
 protected:
  // Changes objects in a process that is killed, and expects that the next run has all changes
  // that the process awaited. The process starts with the files of the previous process.
  void TryKill(std::optional<milliseconds> time, const ObjectStoreOptions& options) {
    const std::vector<uint64_t> confirmed = RunAndKill(time, [&](const auto& report) {
      auto store = ObjectStore::Open(path_, options, &found_);
      if (!store.ok()) _exit(2);
      Objects objects = ObjectsOf(found_);
      for (uint64_t revision = found_.revision + 1;; ++revision) {
        WriteChange(revision, objects, **store);
        if (revision % 3 == 0) continue;
        if (!(*store)->Await()) _exit(3);
        report(revision);
      }
    });
    Open();
    EXPECT_TRUE(store_->works()) << store_->status().error;
    EXPECT_GE(found_.revision, std::max(revision_, confirmed.empty() ? 0 : confirmed.back()));
    revision_ = found_.revision;
    ASSERT_TRUE(ObjectsOf(found_) == ObjectsAt(revision_));
    EXPECT_THAT(problems(), IsEmpty());
    store_.reset();
  }
};

TEST_F(ObjectStoreKillTest, S342AtRandomItHasAllConfirmedChanges) {
  Dice dice(17);
  for (int i = 0; i < 30; ++i) {
    ObjectStoreOptions options;
    options.sync_interval = milliseconds(dice.Below(20) + 1);
    SCOPED_TRACE(i);
    ASSERT_NO_FATAL_FAILURE(TryKill(milliseconds(5 + dice.Below(80)), options));
  }
  EXPECT_GT(revision_, 100);
}

TEST_F(ObjectStoreKillTest, S342AtEachCallItHasAllConfirmedChanges) {
  for (int call = 0; call < 1000; call += 1 + call / 20) {
    ObjectStoreOptions options = Faulty();
    options.sync_interval = milliseconds(1);
    std::atomic<int> calls = 0;
    FaultyVfs::Get().SetFault([&](FaultyVfs::Call) {
      if (calls++ == call) ::raise(SIGKILL);
      return SQLITE_OK;
    });
    SCOPED_TRACE(call);
    ASSERT_NO_FATAL_FAILURE(TryKill(std::nullopt, options));
  }
  EXPECT_GT(revision_, 20);
}

// During a rewrite, the file has all objects or none, and always the leader.
TEST_F(ObjectStoreKillTest, DuringRewritesItHasEverythingOrNothing) {
  Dice dice(18);
  const Leader leader{7, "svcmap-kube", "pod-7"};
  Open();
  ASSERT_OK(store_->SaveLeader(leader));
  store_.reset();
  for (int i = 0; i < 40; ++i) {
    RunAndKill(milliseconds(5 + dice.Below(60)), [&](const auto&) {
      ObjectStoreOptions options = Faulty();
      options.first_retry = options.last_retry = milliseconds(0);
      options.on_problem = nullptr;
      auto store = ObjectStore::Open(path_, options, &found_);
      if (!store.ok()) _exit(2);
      Objects objects = ObjectsOf(found_);
      for (uint64_t revision = found_.revision + 1;; ++revision) {
        FaultyVfs::Get().SetFault([](FaultyVfs::Call) { return SQLITE_IOERR; });
        // If the sync fails first, the fault may end before this write, which is then saved.
        WriteChange(revision, objects, **store);
        if ((*store)->Await()) _exit(3);
        FaultyVfs::Get().Release();
        while (!(*store)->needs_everything()) std::this_thread::yield();
        (*store)->Write(Everything(objects, revision));
        while (!(*store)->works()) std::this_thread::yield();
      }
    });
    Open();
    EXPECT_TRUE(store_->works()) << store_->status().error;
    ASSERT_TRUE(ObjectsOf(found_) == ObjectsAt(found_.revision)) << "run " << i;
    EXPECT_TRUE(found_.leader == leader || found_.leader == Leader()) << "run " << i;
    store_.reset();
  }
  EXPECT_THAT(problems(), IsEmpty());
}

// Damage.

class ObjectStoreDamageTest : public ObjectStoreTest {
 protected:
  // Leaves the files of a process that was killed, or that has stopped.
  void MakeFiles(bool killed) {
    const auto run = [&](const auto& report) {
      ObjectStoreOptions options;
      auto store = ObjectStore::Open(path_, options, &found_);
      if (!store.ok()) _exit(2);
      Objects objects;
      // A part of the log was moved to the database, and a part was not.
      for (uint64_t revision = 1; revision <= 300; ++revision) {
        WriteChange(revision, objects, **store);
        if (!(*store)->Await()) _exit(3);
        if (revision == 150) {
          while ((*store)->status().synced.time_since_epoch().count() == 0) {
            std::this_thread::yield();
          }
        }
      }
      if (killed) {
        report(1);
        ::pause();
      }
    };
    if (killed) {
      int reports = 0;
      ASSERT_TRUE(WaitUntil([&] {
        fs::remove_all(path_);
        return !RunAndKill(milliseconds(1500), run).empty() || ++reports > 20;
      }));
    } else {
      run([](uint64_t) {});
    }
    fs::copy(path_, folder_.path() + "/good", fs::copy_options::recursive);
  }
  // Opens damaged files. The result must be an exact state of the past, or a reported error.
  void ExpectDetected(const std::string& what, bool killed) {
    problems_.clear();
    Open();
    EXPECT_TRUE(store_->works()) << what << store_->status().error;
    const bool reported = !problems().empty();
    if (reported) {
      ++reported_;
      EXPECT_THAT(found_.objects, IsEmpty()) << what;
      EXPECT_THAT(problems(), ElementsAre(HasSubstr("renamed_to=" + File() + ".damaged"))) << what;
    } else if (found_.revision == 300) {
      ++right_;
      ASSERT_TRUE(ObjectsOf(found_) == ObjectsAt(300)) << what;
    } else {
      // The end of the log is missing, as after a loss of power.
      ++older_;
      EXPECT_TRUE(killed) << what;
      ASSERT_TRUE(ObjectsOf(found_) == ObjectsAt(found_.revision)) << what;
    }
    store_.reset();
    fs::remove_all(path_);
    fs::copy(folder_.path() + "/good", path_, fs::copy_options::recursive);
  }
  void TryDamage(bool killed) {
    MakeFiles(killed);
    Dice dice(19);
    std::vector<std::string> files = {File()};
    if (killed) files.push_back(File() + "-wal");
    for (int i = 0; i < 150; ++i) {
      const std::string& file = files[dice.Below(files.size())];
      const size_t size = fs::file_size(file);
      const size_t at = dice.Chance(20) ? dice.Below(100) : dice.Below(size);
      std::string what = fs::path(file).filename().string() + " at " + std::to_string(at);
      if (dice.Chance(25)) {
        fs::resize_file(file, at);
        what += " truncated";
      } else {
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        stream.seekg(static_cast<std::streamoff>(at));
        const char byte = static_cast<char>(stream.get() ^ (1 << dice.Below(8)));
        stream.seekp(static_cast<std::streamoff>(at));
        stream.put(byte);
      }
      ExpectDetected(what, killed);
    }
    RecordProperty("reported", reported_);
    RecordProperty("right", right_);
    RecordProperty("older", older_);
    EXPECT_GT(reported_, 20);
    EXPECT_GT(right_, 10);
  }

  int reported_ = 0;
  int right_ = 0;
  int older_ = 0;
};

TEST_F(ObjectStoreDamageTest, AfterAKillItIsDetected) { TryDamage(/*killed=*/true); }
TEST_F(ObjectStoreDamageTest, AfterAStopItIsDetected) { TryDamage(/*killed=*/false); }

TEST_F(ObjectStoreDamageTest, TheLastDamagedFileIsKept) {
  fs::create_directory(path_);
  std::ofstream(File() + ".damaged") << "old";
  std::ofstream(File()) << "too short";
  Open();
  EXPECT_TRUE(store_->works());
  EXPECT_EQ(fs::file_size(File() + ".damaged"), 9);
}

TEST_F(ObjectStoreDamageTest, AnotherFormatVersionIsNotUsed) {
  Open();
  store_.reset();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(File().c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA user_version=99", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  Open();
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("has format version 99, expected 2")));
  EXPECT_TRUE(store_->works());
}

// Disks that fail.

TEST_F(ObjectStoreTest, AfterAnErrorARewriteRestoresEverything) {
  Open(Faulty());
  ASSERT_OK(store_->SaveLeader({7, "name", "instance"}));
  WriteNext();
  EXPECT_TRUE(store_->Await());
  FaultyVfs::Get().SetFault([](FaultyVfs::Call call) {
    return call == FaultyVfs::Call::kWrite ? SQLITE_IOERR_WRITE : SQLITE_OK;
  });
  WriteNext();
  EXPECT_FALSE(store_->Await());
  EXPECT_FALSE(store_->works());
  // Of this write, or of the sync of the previous one.
  EXPECT_THAT(store_->status().error, HasSubstr(" " + File() + ": disk I/O error"));
  EXPECT_TRUE(absl::IsUnavailable(store_->SaveLeader({8, "name", "instance"})));
  EXPECT_TRUE(WaitUntil([&] { return store_->needs_everything(); }));
  store_->Write(Everything(objects_, revision_));
  EXPECT_TRUE(WaitUntil([&] { return store_->status().failures >= 2; }));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("saving the state failed"))) << "reported once";

  WriteNext();  // This change is dropped, and is a part of the rewrite.
  FaultyVfs::Get().Release();
  Recover();
  EXPECT_EQ(store_->status().error, "");
  EXPECT_EQ(recoveries_, 1);
  WriteNext();
  EXPECT_TRUE(store_->Await());
  ExpectSaved();
  EXPECT_EQ(found_.leader, (Leader{8, "name", "instance"}));
}

// Objects of a previous run that do not belong to the tables are replaced although saving works.
TEST_F(ObjectStoreTest, ARewriteReplacesAFileThatWorks) {
  ObjectStoreOptions options = Options();
  options.sync_interval = milliseconds(1);
  Open(options);
  ASSERT_OK(store_->SaveLeader({7, "name", ""}));
  for (int i = 0; i < 100; ++i) {
    WriteNext();
    objects_.erase(objects_.begin());
    store_->Write(Everything(objects_, revision_));
    WriteNext();
    EXPECT_TRUE(store_->Await());
  }
  ExpectSaved();
  EXPECT_EQ(found_.leader, (Leader{7, "name", ""}));
  EXPECT_THAT(problems(), IsEmpty());
}

// Each call of the VFS fails once. No confirmed change may be missing.
TEST_F(ObjectStoreTest, EachCallMayFail) {
  int fired = 0;
  for (int fails_at = 0; fails_at < 400; fails_at += 1 + fails_at / 40) {
    store_.reset();
    fs::remove_all(path_);
    std::atomic<int> calls = 0;
    FaultyVfs::Get().SetFault([&](FaultyVfs::Call call) {
      if (calls++ != fails_at) return SQLITE_OK;
      switch (call) {
        case FaultyVfs::Call::kOpen:
          return SQLITE_CANTOPEN;
        case FaultyVfs::Call::kRead:
          return SQLITE_IOERR_READ;
        case FaultyVfs::Call::kWrite:
          return fails_at % 2 == 0 ? SQLITE_FULL : SQLITE_IOERR_WRITE;
        case FaultyVfs::Call::kSync:
          return SQLITE_IOERR_FSYNC;
      }
      return SQLITE_OK;
    });
    revision_ = 0;
    objects_.clear();
    Open(Faulty());
    uint64_t confirmed = 0;
    for (int i = 0; i < 30; ++i) {
      WriteNext();
      if (store_->needs_everything()) store_->Write(Everything(objects_, revision_));
      if (store_->Await()) confirmed = revision_;
    }
    if (calls > fails_at) ++fired;
    const bool works = store_->works();
    store_.reset();
    FaultyVfs::Get().Release();
    Open();
    EXPECT_TRUE(ObjectsOf(found_) == ObjectsAt(found_.revision)) << fails_at;
    if (works) EXPECT_GE(found_.revision, confirmed) << fails_at;
  }
  EXPECT_GT(fired, 50);
}

TEST_F(ObjectStoreTest, AHungWriteBlocksNoCaller) {
  HangDuringWrite();
  EXPECT_TRUE(absl::IsDeadlineExceeded(store_->SaveLeader({7, "name", ""})));
  EXPECT_FALSE(store_->Await());
  EXPECT_THAT(store_->status().error, HasSubstr("no response from the disk for 50 ms"));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    WriteNext();
    EXPECT_FALSE(store_->Await());
    EXPECT_FALSE(store_->needs_everything()) << "the writing thread still waits";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, svcmap::testing::kHangLimit);
  FaultyVfs::Get().Release();
  Recover();
  WriteNext();
  EXPECT_TRUE(store_->Await());
  ExpectSaved();
  EXPECT_EQ(found_.leader, (Leader{7, "name", ""}));
}

// The store has already reported an error, but a run that finds the file must be able to use it.
TEST_F(ObjectStoreTest, AWriteThatEndsAfterItsErrorIsComplete) {
  HangDuringWrite();
  EXPECT_FALSE(store_->Await());
  WriteChange(revision_ + 1, objects_, *store_);  // This change is dropped.
  FaultyVfs::Get().Release();
  EXPECT_TRUE(WaitUntil([&] { return store_->needs_everything(); })) << "the write has not ended";
  objects_ = ObjectsAt(revision_);
  ExpectSaved();
}

// A sync consists of a sync of the log and a sync of the database.
TEST_F(ObjectStoreTest, AHungSyncDelaysNoWrite) {
  for (const int pass : {0, 1}) {
    Open(Faulty());
    WriteNext();
    EXPECT_TRUE(store_->Await());
    EXPECT_TRUE(WaitUntil([&] { return store_->status().synced.time_since_epoch().count() > 0; }));
    ASSERT_OK(store_->SaveLeader({7 + static_cast<uint64_t>(pass), "name", ""}));
    FaultyVfs::Get().Hang(FaultyVfs::Call::kSync, pass);
    WriteNext();
    EXPECT_TRUE(WaitUntil([&] { return FaultyVfs::Get().hanging() > 0; }));
    for (int i = 0; i < 100; ++i) {
      WriteNext();
      ASSERT_TRUE(store_->Await()) << "sync " << pass << ": " << store_->status().error;
    }
    FaultyVfs::Get().Release();
    ExpectSaved();
  }
}

TEST_F(ObjectStoreTest, ANewLeaderWaitsForTheDisk) {
  ObjectStoreOptions options = Faulty();
  options.limit = milliseconds(50);
  Open(options);
  FaultyVfs::Get().Hang(FaultyVfs::Call::kSync);
  EXPECT_TRUE(absl::IsDeadlineExceeded(store_->SaveLeader({7, "name", ""})));
  FaultyVfs::Get().Release();
}

TEST_F(ObjectStoreTest, ASyncThatTakesTooLongIsAnError) {
  ObjectStoreOptions options = Faulty();
  options.sync_limit = milliseconds(50);
  Open(options);
  FaultyVfs::Get().Hang(FaultyVfs::Call::kSync);
  WriteNext();
  EXPECT_TRUE(WaitUntil([&] { return !store_->works(); }));
  EXPECT_THAT(store_->status().error, HasSubstr("sync " + File() + ": no response"));
  EXPECT_FALSE(store_->needs_everything());
  FaultyVfs::Get().Release();
  Recover();
  ExpectSaved();
}

TEST_F(ObjectStoreTest, AHungStopEnds) {
  ObjectStoreOptions options = Faulty();
  options.stop_limit = milliseconds(50);
  Open(options);
  FaultyVfs::Get().Hang(FaultyVfs::Call::kWrite);
  WriteNext();
  store_.reset();
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("stop: no response from the disk")));
  FaultyVfs::Get().Release();
  // The abandoned thread ends, and releases the folder.
  SavedObjects found;
  EXPECT_TRUE(WaitUntil([&] { return ObjectStore::Open(path_, Options(), &found).ok(); }));
}

TEST_F(ObjectStoreTest, AHungStartEndsWithoutObjects) {
  Open();
  WriteNext();
  store_.reset();
  ObjectStoreOptions options = Faulty();
  options.open_limit = milliseconds(50);
  FaultyVfs::Get().Hang(FaultyVfs::Call::kRead);
  Open(options);
  EXPECT_THAT(found_.objects, IsEmpty());
  EXPECT_FALSE(store_->works());
  FaultyVfs::Get().Release();
  Recover();
  ExpectSaved();
}

// The file is deleted while the store uses it.

TEST_F(ObjectStoreTest, ADeletedFileIsAnError) {
  Open();
  ASSERT_OK(store_->SaveLeader({7, "name", ""}));
  WriteNext();
  const std::string other = path_ + "/other";
  for (const auto& remove : std::vector<std::function<void()>>{
           [&] { fs::remove(File()); }, [&] { fs::remove(File() + "-wal"); },
           [&] { fs::remove_all(path_); },
           [&] {
             std::ofstream(other) << "a file of an operator";
             fs::rename(other, File());
           }}) {
    EXPECT_TRUE(store_->Await());
    problems_.clear();
    remove();
    ASSERT_TRUE(WaitUntil([&] { return !store_->works(); }));
    EXPECT_THAT(problems(), ElementsAre(HasSubstr("the file was deleted or replaced")));
    Recover();
    WriteNext();
  }
  EXPECT_TRUE(store_->Await());
  EXPECT_TRUE(fs::exists(path_ + "/lock"));
  ExpectSaved();
  EXPECT_EQ(found_.leader, (Leader{7, "name", ""}));
}

// Folders that cannot be used.

TEST_F(ObjectStoreTest, AFileInPlaceOfTheFolder) {
  std::ofstream(path_) << "x";
  Open();
  EXPECT_FALSE(store_->works());
  EXPECT_THAT(store_->status().error, HasSubstr("Not a directory (ENOTDIR)"));
  WriteNext();
  fs::remove(path_);
  Recover();
  ExpectSaved();
}

class ObjectStoreMountTest : public ObjectStoreTest {
 protected:
  static constexpr size_t kBytes = 2 << 20;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount a file system";
    ASSERT_OK_AND_ASSIGN(mounts_, MountNs::Create());
    ASSERT_OK(mounts_->MountTmpfs(path_, kBytes));
  }
  void FillDisk() {
    std::ofstream file(path_ + "/fill");
    const std::string block(4096, 'x');
    while (file.write(block.data(), 4096).flush()) {
    }
  }

  std::optional<MountNs> mounts_;
};

TEST_F(ObjectStoreMountTest, AFullDiskIsReportedAndTheNextRewriteWorks) {
  mounts_->Run([&] {
    Open();
    WriteNext();
    EXPECT_TRUE(store_->Await());
    const Objects saved = objects_;
    FillDisk();
    EXPECT_TRUE(WaitUntil([&] {
      WriteNext();
      return !store_->Await();
    }));
    EXPECT_THAT(store_->status().error, HasSubstr("database or disk is full"));
    // A rewrite that does not fit fails as well.
    EXPECT_TRUE(WaitUntil([&] { return store_->needs_everything(); }));
    for (int i = 0; i < 100; ++i)
      objects_[{Kind::kNode, "n" + std::to_string(i)}] = {std::string(4000, 'x'), 0};
    store_->Write(Everything(objects_, revision_));
    EXPECT_TRUE(WaitUntil([&] { return store_->status().failures >= 2; }));
    EXPECT_FALSE(store_->works());
    fs::remove(path_ + "/fill");
    Recover();
    ExpectSaved();
    store_.reset();
  });
}

TEST_F(ObjectStoreMountTest, TheDamagedFileMakesRoom) {
  mounts_->Run([&] {
    Open();
    std::ofstream(File() + ".damaged") << std::string(1 << 20, 'x');
    FillDisk();
    for (int i = 0; i < 100; ++i)
      objects_[{Kind::kNode, "n" + std::to_string(i)}] = {std::string(5000, 'x'), 0};
    EXPECT_TRUE(WaitUntil([&] {
      WriteNext();
      return !store_->Await();
    }));
    Recover();
    EXPECT_FALSE(fs::exists(File() + ".damaged"));
    ExpectSaved();
    store_.reset();
  });
}

TEST_F(ObjectStoreMountTest, AReadOnlyDiskIsReportedAndTheNextRewriteWorks) {
  mounts_->Run([&] {
    const auto remount = [&](unsigned long flags) {
      ASSERT_EQ(::mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_BIND | flags, nullptr), 0);
    };
    Open();
    WriteNext();
    store_.reset();
    remount(MS_RDONLY);
    Open();
    EXPECT_THAT(found_.objects, IsEmpty());
    EXPECT_FALSE(store_->works());
    EXPECT_THAT(store_->status().error, HasSubstr("Read-only file system (EROFS)"));
    WriteNext();
    EXPECT_FALSE(store_->Await());
    remount(0);
    Recover();
    ExpectSaved();
    store_.reset();
  });
}

}  // namespace
}  // namespace svcmap::proxy::test
