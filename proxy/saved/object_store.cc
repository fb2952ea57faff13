#include "proxy/saved/object_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "nft/base/backoff.h"
#include "nft/base/unique_fd.h"
#include "proxy/saved/folder.h"
#include "proxy/saved/object_file.h"

namespace svcmap::proxy {
namespace {

using Clock = std::chrono::steady_clock;
using SystemClock = std::chrono::system_clock;

constexpr std::string_view kFile = "objects.db";
constexpr std::string_view kLock = "lock";
constexpr std::string_view kCopy = "objects.db.copy";
constexpr std::string_view kDamaged = "objects.db.damaged-";
constexpr size_t kMaxDamaged = 3;
constexpr std::string_view kSuffixes[] = {"", "-wal", "-journal"};
// Files of versions before 0025-objects-on-disk.md. `state` had the objects and the kernel's rows.
constexpr std::string_view kFormerState = "state";
constexpr std::string_view kFormerFiles[] = {kFormerState, "state.new", "state.compacted", "leader",
                                             "leader.new"};

bool IsFormerFile(std::string_view name) {
  return std::find(std::begin(kFormerFiles), std::end(kFormerFiles), name) !=
             std::end(kFormerFiles) ||
         name.starts_with("state.damaged-");
}

std::string Timestamp() {
  const std::time_t now = SystemClock::to_time_t(SystemClock::now());
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

std::string PathOf(const std::string& folder, std::string_view name) {
  return folder + "/" + std::string(name);
}

// Returns the names of the damaged databases in the folder, newest first.
std::vector<std::string> DamagedFiles(const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> names = ListFolder(folder);
  if (!names.ok()) return {};
  std::erase_if(*names, [](const std::string& name) {
    return !name.starts_with(kDamaged) || name.find('-', kDamaged.size()) != std::string::npos;
  });
  std::sort(names->begin(), names->end(), std::greater<>());
  return *std::move(names);
}

absl::Status RemoveDatabase(const std::string& path) {
  for (const std::string_view suffix : kSuffixes) {
    absl::Status removed = Unlink(path + std::string(suffix));
    if (!removed.ok()) return removed;
  }
  return absl::OkStatus();
}

absl::Status NoResponse(const std::string& call, std::chrono::milliseconds limit) {
  return absl::DeadlineExceededError(call + ": no response from the disk for " +
                                     std::to_string(limit.count()) + " ms");
}

}  // namespace

// State that the caller and the two threads share. The threads share ownership, because a thread
// that waits for a hung disk may outlive the ObjectStore. No thread holds mutex_ while it waits for
// a disk.
class ObjectStore::Worker : public std::enable_shared_from_this<Worker> {
 public:
  Worker(std::string folder, ObjectStoreOptions options)
      : folder_(std::move(folder)),
        options_(std::move(options)),
        backoff_(options_.first_retry, options_.last_retry) {}

  absl::Status Start(SavedObjects* found);
  void Collect(SavedChange change) { collected_.changes.push_back(std::move(change)); }
  void SetPartial(bool partial) { collected_.partial = partial; }
  void Write(uint64_t revision);
  bool Await();
  bool works() const;
  bool NeedsEverything() const;
  void Rewrite(const std::function<void(const PutFn&)>& objects, uint64_t revision);
  absl::Status SaveLeader(const Leader& leader);
  ObjectStoreStatus status() const;
  void Stop();

 private:
  struct Task {
    enum class Type : uint8_t { kChanges, kRewrite, kLeader };
    Type type = Type::kChanges;
    std::vector<SavedChange> changes;
    bool partial = false;
    uint64_t revision = 0;
  };
  using FilePtr = std::shared_ptr<ObjectFile>;
  using Lock = std::unique_lock<std::mutex>;

  uint64_t Queue(Task task);
  void Fail(Lock& lock, const absl::Status& status);
  void Call(const std::function<void()>& call);
  void Problem(const std::string& line);

  // Methods of the writing thread.
  void RunWriter();
  bool OpenAtStart(Lock& lock);
  bool Work(Lock& lock);
  void RunTask(Lock& lock);
  void Restore(Lock& lock);
  void Close(Lock& lock);
  absl::StatusOr<FilePtr> OpenFolder(SavedObjects* found);
  absl::StatusOr<FilePtr> OpenFile(SavedObjects* found);
  absl::Status RenameDamaged(const absl::Status& damage);
  absl::StatusOr<FilePtr> MakeFile(const Task& task, const Leader& leader);
  absl::StatusOr<FilePtr> CopyDeletedFile(FilePtr file);
  absl::Status LockTheFolder();
  void RemoveFormerFiles();
  bool FreeSpace();

  // The thread that syncs.
  void RunSync();
  void SyncOnce(Lock& lock);

  std::string Path(std::string_view name) const { return PathOf(folder_, name); }

  const std::string folder_;
  const ObjectStoreOptions options_;

  // Only the caller's thread uses the changes since the last Write.
  Task collected_;
  bool written_partial_ = false;
  UniqueFd folder_lock_;  // Only the writing thread uses the lock.

  mutable std::mutex mutex_;
  std::condition_variable work_;      // Wakes the writing thread.
  std::condition_variable sync_;      // Wakes the thread that syncs, for Stop only.
  std::condition_variable finished_;  // Wakes callers that wait.
  // Number of errors. If it changes while a thread waits for the disk, the store has given up the
  // thread's work, because the disk did not respond in time.
  uint64_t errors_ = 0;
  bool works_ = false;
  bool accepts_ = false;         // Saving works, or a rewrite is queued.
  FilePtr file_;                 // Null if the file is not open.
  FilePtr discarded_;            // File after an error. Closing it may block.
  std::deque<Task> tasks_;       // The transactions that are queued.
  uint64_t queued_count_ = 0;    // Number of transactions that were queued so far.
  uint64_t finished_count_ = 0;  // Of these, transactions that were written or dropped.
  SavedObjects found_;           // Result of the start.
  absl::Status in_use_;          // Result of the start: the error if another agent uses the folder.
  bool started_ = false;
  bool busy_ = true;      // The writing thread may be waiting for the disk.
  bool syncing_ = false;  // The other thread may be waiting for the disk.
  Clock::time_point sync_start_;
  bool dirty_ = false;       // The file has transactions that may not be on disk.
  bool deleted_ = false;     // The file has lost its name.
  Clock::time_point retry_;  // Time of the next rewrite after an error.
  bool stopping_ = false;
  int ended_threads_ = 0;
  Backoff backoff_;
  Leader leader_;
  ObjectStoreStatus status_;

  std::mutex call_mutex_;  // Held while a function of the options runs.
  bool silent_ = false;    // The functions of the options must not be called any more.

  std::thread writer_thread_;
  std::thread sync_thread_;
};

absl::Status ObjectStore::Worker::Start(SavedObjects* found) {
  *found = {};
  Lock lock(mutex_);
  writer_thread_ = std::thread([self = shared_from_this()] { self->RunWriter(); });
  if (!finished_.wait_for(lock, options_.open_limit, [this] { return started_; })) {
    started_ = true;
    Fail(lock, NoResponse("open " + Path(kFile), options_.open_limit));
  }
  if (!in_use_.ok()) {
    lock.unlock();
    writer_thread_.join();
    return in_use_;
  }
  *found = std::exchange(found_, {});
  leader_ = found->leader;
  collected_.partial = written_partial_ = found->partial;
  collected_.revision = found->revision;
  sync_thread_ = std::thread([self = shared_from_this()] { self->RunSync(); });
  return absl::OkStatus();
}

// Methods for the caller's thread.

uint64_t ObjectStore::Worker::Queue(Task task) {
  tasks_.push_back(std::move(task));
  work_.notify_one();
  return ++queued_count_;
}

void ObjectStore::Worker::Write(uint64_t revision) {
  if (collected_.changes.empty() && collected_.revision == revision &&
      collected_.partial == written_partial_) {
    return;
  }
  written_partial_ = collected_.partial;
  Task task = std::exchange(collected_, {});
  collected_.partial = task.partial;
  task.revision = collected_.revision = revision;
  const std::lock_guard lock(mutex_);
  if (accepts_) Queue(std::move(task));
}

bool ObjectStore::Worker::Await() {
  Lock lock(mutex_);
  if (!works_) return false;
  const uint64_t errors = errors_;
  const uint64_t number = queued_count_;
  if (!finished_.wait_for(lock, options_.limit, [&] { return finished_count_ >= number; })) {
    Fail(lock, NoResponse("write " + Path(kFile), options_.limit));
  }
  return errors_ == errors;
}

bool ObjectStore::Worker::works() const {
  const std::lock_guard lock(mutex_);
  return works_;
}

bool ObjectStore::Worker::NeedsEverything() const {
  const std::lock_guard lock(mutex_);
  return !accepts_ && !stopping_ && !busy_ && !syncing_ && Clock::now() >= retry_;
}

void ObjectStore::Worker::Rewrite(const std::function<void(const PutFn&)>& objects,
                                  uint64_t revision) {
  Task task{.type = Task::Type::kRewrite, .partial = collected_.partial, .revision = revision};
  objects([&](Kind kind, const std::string& key, const std::string& message, uint64_t first_seen) {
    task.changes.push_back({kind, key, message, first_seen});
  });
  collected_.changes.clear();
  collected_.revision = revision;
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  accepts_ = true;
  Queue(std::move(task));
}

absl::Status ObjectStore::Worker::SaveLeader(const Leader& leader) {
  Lock lock(mutex_);
  leader_ = leader;
  if (!accepts_) return absl::UnavailableError("saving does not work: " + status_.error);
  const uint64_t errors = errors_;
  const uint64_t number = Queue({.type = Task::Type::kLeader});
  if (!finished_.wait_for(lock, options_.leader_limit, [&] { return finished_count_ >= number; })) {
    return NoResponse("write " + Path(kFile), options_.leader_limit);
  }
  return errors_ == errors ? absl::OkStatus() : absl::UnavailableError(status_.error);
}

ObjectStoreStatus ObjectStore::Worker::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void ObjectStore::Worker::Stop() {
  Lock lock(mutex_);
  if (std::exchange(stopping_, true)) return;
  if (accepts_ && !collected_.changes.empty()) Queue(std::exchange(collected_, {}));
  accepts_ = false;
  work_.notify_one();
  sync_.notify_one();
  const bool ended =
      finished_.wait_for(lock, options_.stop_limit, [this] { return ended_threads_ == 2; });
  lock.unlock();
  if (!ended) Problem(std::string(NoResponse("stop", options_.stop_limit).message()));
  for (std::thread* thread : {&writer_thread_, &sync_thread_}) {
    // A thread that waits for a hung disk cannot be joined.
    ended ? thread->join() : thread->detach();
  }
  const std::lock_guard call_lock(call_mutex_);
  silent_ = true;
}

// Stops saving. Releases the mutex while it reports the error.
void ObjectStore::Worker::Fail(Lock& lock, const absl::Status& status) {
  ++errors_;
  works_ = accepts_ = dirty_ = deleted_ = false;
  tasks_.clear();
  finished_count_ = queued_count_;
  if (file_ != nullptr) discarded_ = std::exchange(file_, nullptr);
  retry_ = Clock::now() + backoff_.Failure();
  ++status_.failures;
  const bool first = status_.error.empty();
  if (first) status_.error_since = SystemClock::now();
  status_.error = std::string(status.message());
  status_.bytes = 0;
  work_.notify_one();
  finished_.notify_all();
  if (!first) return;
  lock.unlock();
  Problem(
      "saving the state failed, traffic is not affected, but after a restart svcmapd does not "
      "modify the rules until a controller sends a snapshot path=" +
      folder_ + " error=\"" + std::string(status.message()) + "\"");
  lock.lock();
}

void ObjectStore::Worker::Call(const std::function<void()>& call) {
  const std::lock_guard lock(call_mutex_);
  if (!silent_ && call) call();
}

void ObjectStore::Worker::Problem(const std::string& line) {
  if (options_.on_problem) Call([&] { options_.on_problem(line); });
}

// The writing thread.

void ObjectStore::Worker::RunWriter() {
  Lock lock(mutex_);
  if (!OpenAtStart(lock)) return;
  while (Work(lock)) {
  }
  Close(lock);
  ++ended_threads_;
  finished_.notify_all();
}

// Returns false if another agent uses the folder.
bool ObjectStore::Worker::OpenAtStart(Lock& lock) {
  lock.unlock();
  SavedObjects found;
  absl::StatusOr<FilePtr> file = OpenFolder(&found);
  lock.lock();
  if (started_) {  // Start has not waited.
    if (file.ok()) discarded_ = *std::move(file);
    return true;
  }
  started_ = true;
  finished_.notify_all();
  if (absl::IsFailedPrecondition(file.status())) {
    in_use_ = file.status();
    return false;
  }
  found_ = std::move(found);
  if (file.ok()) {
    file_ = *std::move(file);
    works_ = accepts_ = dirty_ = true;
  } else {
    Fail(lock, file.status());
  }
  return true;
}

// Does the next work, or waits for work. Returns false if the thread must end.
bool ObjectStore::Worker::Work(Lock& lock) {
  busy_ = true;
  if (discarded_ != nullptr) {
    FilePtr file = std::exchange(discarded_, nullptr);
    lock.unlock();
    file.reset();
    lock.lock();
    return true;
  }
  if (!tasks_.empty()) {
    RunTask(lock);
    return true;
  }
  if (deleted_) {
    Restore(lock);
    return true;
  }
  busy_ = false;
  if (stopping_) return false;
  if (works_ && syncing_ && Clock::now() >= sync_start_ + options_.sync_limit) {
    Fail(lock, NoResponse("sync " + Path(kFile), options_.sync_limit));
    return true;
  }
  if (works_ && syncing_) {
    work_.wait_until(lock, sync_start_ + options_.sync_limit);
  } else {
    work_.wait(lock);
  }
  return true;
}

void ObjectStore::Worker::RunTask(Lock& lock) {
  const Task task = std::move(tasks_.front());
  tasks_.pop_front();
  const uint64_t errors = errors_;
  const Leader leader = leader_;
  const bool rewrites = task.type == Task::Type::kRewrite;
  FilePtr file = rewrites ? std::exchange(file_, nullptr) : file_;
  lock.unlock();
  absl::Status status;
  bool freed = false;
  switch (task.type) {
    case Task::Type::kChanges:
      status = file->Write(task.changes, task.partial, task.revision);
      break;
    case Task::Type::kLeader:
      status = file->WriteLeader(leader);
      break;
    case Task::Type::kRewrite: {
      file.reset();
      absl::StatusOr<FilePtr> made = MakeFile(task, leader);
      status = made.status();
      if (made.ok()) file = *std::move(made);
      freed = absl::IsResourceExhausted(status) && FreeSpace();
      break;
    }
  }
  lock.lock();
  if (errors_ != errors) {
    if (rewrites) discarded_ = std::move(file);
    return;
  }
  if (!status.ok()) {
    Fail(lock, status);
    if (freed) retry_ = Clock::now();
    return;
  }
  ++finished_count_;
  dirty_ = true;
  bool recovered = false;
  if (rewrites) {
    file_ = std::move(file);
    works_ = true;
    recovered = !std::exchange(status_.error, "").empty();
  }
  finished_.notify_all();
  if (!recovered || !options_.on_recovery) return;
  lock.unlock();
  Call(options_.on_recovery);
  lock.lock();
}

// Copies the content of a deleted file, which is complete until the file is closed, to a new file.
void ObjectStore::Worker::Restore(Lock& lock) {
  const uint64_t errors = errors_;
  FilePtr file = std::exchange(file_, nullptr);
  lock.unlock();
  absl::StatusOr<FilePtr> copy = CopyDeletedFile(std::move(file));
  lock.lock();
  if (errors_ != errors) {
    if (copy.ok()) discarded_ = *std::move(copy);
    return;
  }
  deleted_ = false;
  if (!copy.ok()) return Fail(lock, copy.status());
  file_ = *std::move(copy);
  dirty_ = true;
}

void ObjectStore::Worker::Close(Lock& lock) {
  finished_.wait(lock, [this] { return !syncing_; });
  if (file_ != nullptr) {
    lock.unlock();
    const bool named = file_->HasName();
    lock.lock();
    if (!named) Restore(lock);
  }
  FilePtr file = std::exchange(file_, nullptr);
  lock.unlock();
  if (file != nullptr) {
    const absl::StatusOr<bool> synced = file->Sync();
    if (!synced.ok()) Problem(std::string(synced.status().message()));
    file.reset();  // Moves the rest of the log to the database and removes the log.
  }
  folder_lock_.Close();
  lock.lock();
}

absl::Status ObjectStore::Worker::LockTheFolder() {
  struct stat found = {};
  // If the lock file was deleted, the folder may also have been deleted.
  if (folder_lock_.ok() && ::fstat(folder_lock_.get(), &found) == 0 && found.st_nlink > 0) {
    return absl::OkStatus();
  }
  folder_lock_.Close();
  if (absl::Status made = MakeFolder(folder_); !made.ok()) return made;
  absl::StatusOr<UniqueFd> lock = LockFolder(folder_);
  if (lock.ok()) folder_lock_ = *std::move(lock);
  return lock.status();
}

// Reads an existing file even if the folder is not writable.
absl::StatusOr<ObjectStore::Worker::FilePtr> ObjectStore::Worker::OpenFolder(SavedObjects* found) {
  const absl::Status locked = LockTheFolder();
  if (absl::IsFailedPrecondition(locked)) return locked;
  if (const std::string reason = ChangeableByOthers(folder_);
      !reason.empty() && options_.on_shared_folder) {
    Call([&] { options_.on_shared_folder(reason); });
  }
  if (locked.ok()) {
    RemoveFormerFiles();
    Unlink(Path(kCopy)).IgnoreError();  // An interrupted run may have left the copy.
  }
  absl::StatusOr<FilePtr> file = locked.ok() ? OpenFile(found) : locked;
  if (!file.ok()) ObjectFile::ReadOnly(Path(kFile), found).IgnoreError();
  return file;
}

absl::StatusOr<ObjectStore::Worker::FilePtr> ObjectStore::Worker::OpenFile(SavedObjects* found) {
  absl::StatusOr<FilePtr> file =
      ObjectFile::Open(Path(kFile), options_.vfs, options_.writer, found);
  if (!absl::IsDataLoss(file.status()) && !absl::IsUnimplemented(file.status())) return file;
  if (absl::Status moved = RenameDamaged(file.status()); !moved.ok()) return moved;
  return ObjectFile::Open(Path(kFile), options_.vfs, options_.writer, found);
}

absl::Status ObjectStore::Worker::RenameDamaged(const absl::Status& damage) {
  const std::string name = std::string(kDamaged) + Timestamp();
  absl::Status moved = Rename(Path(kFile), Path(name));
  for (const std::string_view suffix : {"-wal", "-journal"}) {
    if (!moved.ok()) break;
    const std::string from = Path(kFile) + std::string(suffix);
    if (!absl::IsNotFound(CheckTrusted(from)))
      moved = Rename(from, Path(name) + std::string(suffix));
  }
  Problem(std::string(absl::IsUnimplemented(damage)
                          ? "saved state has an unsupported format version, not using it"
                          : "saved state is damaged, not using it") +
          " path=" + Path(kFile) + " error=\"" + std::string(damage.message()) + "\"" +
          (moved.ok() ? " renamed_to=" + name
                      : " rename_error=\"" + std::string(moved.message()) + "\""));
  const std::vector<std::string> damaged = DamagedFiles(folder_);
  for (size_t i = kMaxDamaged; i < damaged.size(); ++i) {
    RemoveDatabase(Path(damaged[i])).IgnoreError();
  }
  return moved;
}

// The old file is out of date, so it is removed first, which also frees its space.
absl::StatusOr<ObjectStore::Worker::FilePtr> ObjectStore::Worker::MakeFile(const Task& task,
                                                                           const Leader& leader) {
  if (absl::Status locked = LockTheFolder(); !locked.ok()) return locked;
  if (absl::Status removed = RemoveDatabase(Path(kFile)); !removed.ok()) return removed;
  SavedObjects none;
  absl::StatusOr<FilePtr> file =
      ObjectFile::Open(Path(kFile), options_.vfs, options_.writer, &none);
  if (!file.ok()) return file;
  // The leader is saved even if the objects need more space than the disk has. The second Sync also
  // needs space.
  absl::Status status = (*file)->WriteLeader(leader);
  if (status.ok()) status = (*file)->Sync().status();
  if (status.ok()) status = (*file)->Write(task.changes, task.partial, task.revision);
  if (status.ok()) status = (*file)->Sync().status();
  if (!status.ok()) return status;
  return file;
}

absl::StatusOr<ObjectStore::Worker::FilePtr> ObjectStore::Worker::CopyDeletedFile(FilePtr file) {
  if (absl::Status locked = LockTheFolder(); !locked.ok()) return locked;
  for (const absl::Status& status :
       {RemoveDatabase(Path(kCopy)), file->CopyTo(Path(kCopy)), SyncPath(Path(kCopy))}) {
    if (!status.ok()) return status;
  }
  file.reset();
  for (const absl::Status& status :
       {RemoveDatabase(Path(kFile)), Rename(Path(kCopy), Path(kFile))}) {
    if (!status.ok()) return status;
  }
  SavedObjects copied;
  return ObjectFile::Open(Path(kFile), options_.vfs, options_.writer, &copied);
}

void ObjectStore::Worker::RemoveFormerFiles() {
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(folder_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!IsFormerFile(name)) continue;
    const absl::Status removed = Unlink(Path(name));
    if (name != kFormerState && removed.ok()) continue;
    Problem(
        "the state was saved by an earlier version, waiting for a controller path=" + Path(name) +
        (removed.ok() ? "" : " remove_error=\"" + std::string(removed.message()) + "\""));
  }
}

// Removes the oldest damaged file. Returns true if there was one.
bool ObjectStore::Worker::FreeSpace() {
  const std::vector<std::string> damaged = DamagedFiles(folder_);
  if (damaged.empty() || !RemoveDatabase(Path(damaged.back())).ok()) return false;
  Problem("no space for the complete state, removed a damaged file path=" + Path(damaged.back()));
  return true;
}

// The thread that syncs.

void ObjectStore::Worker::RunSync() {
  Lock lock(mutex_);
  while (!sync_.wait_for(lock, options_.sync_interval, [this] { return stopping_; })) {
    if (works_ && file_ != nullptr && !deleted_) SyncOnce(lock);
  }
  ++ended_threads_;
  finished_.notify_all();
}

void ObjectStore::Worker::SyncOnce(Lock& lock) {
  const bool dirty = std::exchange(dirty_, false);
  const SystemClock::time_point now = SystemClock::now();
  FilePtr file = file_;
  syncing_ = true;
  sync_start_ = Clock::now();
  work_.notify_one();
  lock.unlock();
  absl::StatusOr<bool> complete = true;
  if (dirty) complete = file->Sync();
  const bool named = file->HasName();
  const uint64_t bytes = file->bytes();
  lock.lock();
  syncing_ = false;
  if (file_ != file) {  // After an error or a rewrite, the result has no meaning.
    lock.unlock();
    file.reset();
    lock.lock();
  } else if (!complete.ok()) {
    Fail(lock, complete.status());
  } else {
    dirty_ |= !*complete;
    deleted_ = !named;
    status_.bytes = bytes;
    if (dirty && *complete) {
      status_.synced = now;
      backoff_.Success();
    }
  }
  work_.notify_one();
  finished_.notify_all();
}

// ObjectStore passes all calls to the worker.

ObjectStore::ObjectStore(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}
ObjectStore::~ObjectStore() { Stop(); }

absl::StatusOr<std::unique_ptr<ObjectStore>> ObjectStore::Open(std::string folder,
                                                               ObjectStoreOptions options,
                                                               SavedObjects* found) {
  auto worker = std::make_shared<Worker>(std::move(folder), std::move(options));
  if (absl::Status started = worker->Start(found); !started.ok()) return started;
  return std::unique_ptr<ObjectStore>(new ObjectStore(std::move(worker)));
}

void ObjectStore::Put(Kind kind, const std::string& key, const std::string& message,
                      uint64_t first_seen) {
  worker_->Collect({kind, key, message, first_seen});
}
void ObjectStore::Remove(Kind kind, const std::string& key) {
  worker_->Collect({kind, key, std::nullopt});
}
void ObjectStore::SetPartial(bool partial) { worker_->SetPartial(partial); }
void ObjectStore::Write(uint64_t revision) { worker_->Write(revision); }
bool ObjectStore::Await() { return worker_->Await(); }
bool ObjectStore::works() const { return worker_->works(); }
bool ObjectStore::needs_everything() const { return worker_->NeedsEverything(); }
void ObjectStore::Rewrite(const std::function<void(const PutFn&)>& objects, uint64_t revision) {
  worker_->Rewrite(objects, revision);
}
absl::Status ObjectStore::SaveLeader(const Leader& leader) { return worker_->SaveLeader(leader); }
ObjectStoreStatus ObjectStore::status() const { return worker_->status(); }
void ObjectStore::Stop() { worker_->Stop(); }

absl::StatusOr<bool> RemoveSavedState(const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> names = ListFolder(folder);
  if (absl::IsNotFound(names.status())) return false;
  if (!names.ok()) return names.status();
  std::erase_if(*names, [](const std::string& name) {
    return name != kLock && !name.starts_with(kFile) && !IsFormerFile(name);
  });
  if (names->empty()) return false;
  const absl::StatusOr<UniqueFd> lock = LockFolder(folder);
  if (!lock.ok()) return lock.status();
  for (const std::string& name : *names) {
    if (absl::Status removed = Unlink(PathOf(folder, name)); !removed.ok()) return removed;
  }
  return true;
}

}  // namespace svcmap::proxy
