#include "proxy/saved/object_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
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

using Lock = std::unique_lock<std::mutex>;
using FilePtr = std::unique_ptr<ObjectFile>;

constexpr char kFile[] = "/objects.db";
constexpr char kDamaged[] = "/objects.db.damaged";

absl::Status NoResponse(const std::string& call, std::chrono::milliseconds limit) {
  return absl::DeadlineExceededError(call + ": no response from the disk for " +
                                     std::to_string(limit.count()) + " ms");
}

}  // namespace

// State that the caller and the two threads share, and the methods of the threads. The threads
// share ownership, because a thread that waits for a hung disk may outlive the ObjectStore. No
// thread holds the mutex while it waits for the disk.
struct ObjectStore::Worker {
  enum class State : uint8_t {
    kOpening,    // The writing thread opens the file.
    kSaving,     // All changes are written or pending.
    kFailing,    // After an error, until both threads have stopped using the file.
    kFailed,     // Changes are dropped until the caller rewrites everything.
    kRewriting,  // After an error, a rewrite and later changes are pending.
    kStopping,   // The threads end when nothing is pending.
    kStopped,    // The functions of the options must not be called any more.
  };

  Worker(std::string folder_path, ObjectStoreOptions store_options)
      : folder(std::move(folder_path)),
        path(folder + kFile),
        options(std::move(store_options)),
        backoff(options.first_retry, options.last_retry) {}

  // The caller must hold the mutex.
  bool Accepts() const { return state == State::kSaving || state == State::kRewriting; }
  uint64_t Queue();
  bool Finish(Lock& lock, uint64_t count, std::chrono::milliseconds limit);
  void Fail(const absl::Status& error);
  void Problem(const std::string& line);

  void RunWriter();
  void WritePending(Lock& lock);
  void CloseFile(Lock& lock);
  absl::Status LockTheFolder();
  absl::StatusOr<FilePtr> OpenFile(SavedObjects* loaded);
  absl::StatusOr<FilePtr> OpenFolder(SavedObjects* loaded);
  absl::StatusOr<FilePtr> MakeFile(const SavedBatch& batch);

  void RunSync();

  const std::string folder;
  const std::string path;  // Of the database.
  const ObjectStoreOptions options;

  // Only the caller's thread uses the changes since the last Write.
  std::vector<SavedChange> collected;
  bool collected_partial = false;

  std::mutex mutex;
  std::condition_variable work;      // Wakes the writing thread.
  std::condition_variable stop;      // Wakes the thread that syncs.
  std::condition_variable finished;  // Wakes all threads that wait for a result.
  State state = State::kOpening;
  SavedBatch pending;           // What the writing thread must write next.
  bool rewrites = false;        // The pending changes are the content of a new file.
  uint64_t queued_count = 0;    // Number of calls that have added pending work so far.
  uint64_t finished_count = 0;  // Of these, calls whose work was written or dropped.
  SavedObjects found;           // Result of the start.
  absl::Status in_use;          // Result of the start: the error if another agent uses the folder.
  std::optional<Clock::time_point> sync_start;  // Present while the other thread uses the file.
  Clock::time_point retry;                      // Time of the next rewrite after an error.
  Backoff backoff;
  ObjectStoreStatus status;
  int ended_threads = 0;

  // Only the writing thread uses the lock and changes the file, while the other thread does not use
  // the file.
  UniqueFd folder_lock;
  FilePtr file;

  std::thread writer_thread;
  std::thread sync_thread;
};

uint64_t ObjectStore::Worker::Queue() {
  work.notify_one();
  return ++queued_count;
}

// Waits until the work of the first `count` calls is written or dropped.
bool ObjectStore::Worker::Finish(Lock& lock, uint64_t count, std::chrono::milliseconds limit) {
  return finished.wait_for(lock, limit, [&] { return finished_count >= count; });
}

// Stops saving.
void ObjectStore::Worker::Fail(const absl::Status& error) {
  if (state < State::kStopping) state = State::kFailing;
  pending.changes.clear();
  rewrites = false;
  finished_count = queued_count;
  retry = Clock::now() + backoff.Failure();
  ++status.failures;
  const bool first = status.error.empty();
  if (first) status.error_since = SystemClock::now();
  status.error = std::string(error.message());
  status.bytes = 0;
  work.notify_one();
  finished.notify_all();
  if (first) {
    Problem(
        "saving the state failed, traffic is not affected, but after a restart svcmapd does not "
        "modify the rules until a controller sends a snapshot path=" +
        folder + " error=\"" + status.error + "\"");
  }
}

void ObjectStore::Worker::Problem(const std::string& line) {
  if (state != State::kStopped && options.on_problem) options.on_problem(line);
}

// The writing thread.

void ObjectStore::Worker::RunWriter() {
  SavedObjects loaded;
  absl::StatusOr<FilePtr> opened = OpenFolder(&loaded);
  Lock lock(mutex);
  if (opened.ok()) file = *std::move(opened);
  if (state == State::kOpening) {
    found = std::move(loaded);
    state = State::kSaving;
    if (absl::IsFailedPrecondition(opened.status())) {
      in_use = opened.status();
      state = State::kStopped;
    } else if (!opened.ok()) {
      Fail(opened.status());
    }
    finished.notify_all();
  }
  for (;;) {
    if (finished_count < queued_count) {
      WritePending(lock);
    } else if (state == State::kFailing) {
      CloseFile(lock);
      if (state == State::kFailing) state = State::kFailed;
    } else if (state >= State::kStopping) {
      break;
    } else if (state == State::kSaving && sync_start &&
               Clock::now() >= *sync_start + options.sync_limit) {
      Fail(NoResponse("sync " + path, options.sync_limit));
    } else {
      work.wait_for(lock, options.sync_interval);
    }
  }
  if (file != nullptr && status.error.empty()) {
    finished.wait(lock, [this] { return !sync_start; });
    lock.unlock();
    const absl::StatusOr<bool> synced = file->Sync();
    lock.lock();
    if (!synced.ok()) Problem(std::string(synced.status().message()));
  }
  CloseFile(lock);  // Moves the rest of the log to the database and removes the log.
  folder_lock.Close();
  ++ended_threads;
  finished.notify_all();
}

void ObjectStore::Worker::WritePending(Lock& lock) {
  const uint64_t count = queued_count;
  const SavedBatch batch{std::exchange(pending.changes, {}), pending.partial, pending.revision,
                         pending.leader};
  const bool replaces = std::exchange(rewrites, false);
  if (replaces) CloseFile(lock);
  lock.unlock();
  absl::StatusOr<FilePtr> made = nullptr;
  absl::Status written;
  if (replaces) {
    made = MakeFile(batch);
    written = made.status();
  } else {
    written = file->Write(batch);
  }
  if (absl::IsResourceExhausted(written)) RemoveDatabase(folder + kDamaged).IgnoreError();
  lock.lock();
  if (replaces && made.ok()) file = *std::move(made);
  if (finished_count >= count) return;  // The disk has not responded in time.
  if (!written.ok()) return Fail(written);
  finished_count = count;
  finished.notify_all();
  if (!replaces) return;
  if (state == State::kRewriting) state = State::kSaving;
  const bool recovers = !std::exchange(status.error, "").empty();
  if (recovers && state != State::kStopped && options.on_recovery) options.on_recovery();
}

void ObjectStore::Worker::CloseFile(Lock& lock) {
  finished.wait(lock, [this] { return !sync_start; });
  FilePtr closed = std::move(file);
  lock.unlock();
  closed.reset();
  lock.lock();
}

absl::Status ObjectStore::Worker::LockTheFolder() {
  struct stat lock_file = {};
  // If the lock file was deleted, the folder may also have been deleted.
  if (folder_lock.ok() && ::fstat(folder_lock.get(), &lock_file) == 0 && lock_file.st_nlink > 0) {
    return absl::OkStatus();
  }
  folder_lock.Close();
  absl::StatusOr<UniqueFd> lock = LockFolder(folder);
  if (lock.ok()) folder_lock = *std::move(lock);
  return lock.status();
}

absl::StatusOr<FilePtr> ObjectStore::Worker::OpenFile(SavedObjects* loaded) {
  return ObjectFile::Open(path, options.vfs, options.writer, loaded);
}

// Opens the file of the previous run. Renames a damaged file and creates a new one.
absl::StatusOr<FilePtr> ObjectStore::Worker::OpenFolder(SavedObjects* loaded) {
  if (absl::Status locked = LockTheFolder(); !locked.ok()) return locked;
  if (const std::string reason = ChangeableByOthers(folder); !reason.empty()) {
    const Lock lock(mutex);
    if (state != State::kStopped && options.on_shared_folder) options.on_shared_folder(reason);
  }
  absl::StatusOr<FilePtr> opened = OpenFile(loaded);
  if (!absl::IsDataLoss(opened.status())) return opened;
  absl::Status moved = RemoveDatabase(folder + kDamaged);
  if (moved.ok()) moved = RenameDatabase(path, folder + kDamaged);
  {
    const Lock lock(mutex);
    Problem("not using the saved state path=" + path + " error=\"" +
            std::string(opened.status().message()) + "\"" +
            (moved.ok() ? " renamed_to=" + folder + kDamaged
                        : " rename_error=\"" + std::string(moved.message()) + "\""));
  }
  return moved.ok() ? OpenFile(loaded) : moved;
}

// Removes the old file first, because it is out of date, and to free its space.
absl::StatusOr<FilePtr> ObjectStore::Worker::MakeFile(const SavedBatch& batch) {
  if (absl::Status locked = LockTheFolder(); !locked.ok()) return locked;
  if (absl::Status removed = RemoveDatabase(path); !removed.ok()) return removed;
  SavedObjects none;
  absl::StatusOr<FilePtr> made = OpenFile(&none);
  if (!made.ok()) return made;
  // The leader is saved even if the objects need more space than the disk has. The sync also needs
  // space.
  absl::Status status = (*made)->Write({.leader = batch.leader});
  if (status.ok()) status = (*made)->Write(batch);
  if (status.ok()) status = (*made)->Sync().status();
  if (!status.ok()) return status;
  return made;
}

// The thread that syncs.

void ObjectStore::Worker::RunSync() {
  Lock lock(mutex);
  const auto stopping = [this] { return state >= State::kStopping; };
  while (!stop.wait_for(lock, options.sync_interval, stopping)) {
    if (state != State::kSaving || file == nullptr) continue;
    const SystemClock::time_point now = SystemClock::now();
    sync_start = Clock::now();
    lock.unlock();
    const absl::StatusOr<bool> complete = file->Sync();
    const uint64_t bytes = file->bytes();
    lock.lock();
    sync_start.reset();
    finished.notify_all();
    if (state == State::kFailing) continue;  // The sync took too long, or a write failed.
    if (!complete.ok()) {
      Fail(complete.status());
      continue;
    }
    status.bytes = bytes;
    if (!*complete) continue;
    status.synced = now;
    backoff.Success();
  }
  ++ended_threads;
  finished.notify_all();
}

// The caller's threads.

ObjectStore::ObjectStore(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}
ObjectStore::~ObjectStore() { Stop(); }

absl::StatusOr<std::unique_ptr<ObjectStore>> ObjectStore::Open(std::string folder,
                                                               ObjectStoreOptions options,
                                                               SavedObjects* found) {
  *found = {};
  auto worker = std::make_shared<Worker>(std::move(folder), std::move(options));
  Lock lock(worker->mutex);
  worker->writer_thread = std::thread([worker] { worker->RunWriter(); });
  const std::chrono::milliseconds limit = worker->options.open_limit;
  if (!worker->finished.wait_for(lock, limit,
                                 [&] { return worker->state != Worker::State::kOpening; })) {
    worker->Fail(NoResponse("open " + worker->path, limit));
  }
  if (!worker->in_use.ok()) {
    lock.unlock();
    worker->writer_thread.join();
    return worker->in_use;
  }
  *found = std::exchange(worker->found, {});
  worker->pending.leader = found->leader;
  worker->pending.revision = found->revision;
  worker->pending.partial = worker->collected_partial = found->partial;
  worker->sync_thread = std::thread([worker] { worker->RunSync(); });
  return std::unique_ptr<ObjectStore>(new ObjectStore(worker));
}

void ObjectStore::Put(Kind kind, const std::string& key, const std::string& message,
                      uint64_t first_seen) {
  worker_->collected.push_back({kind, key, message, first_seen});
}

void ObjectStore::Remove(Kind kind, const std::string& key) {
  worker_->collected.push_back({kind, key, std::nullopt});
}

void ObjectStore::SetPartial(bool partial) { worker_->collected_partial = partial; }

void ObjectStore::Write(uint64_t revision) {
  std::vector<SavedChange> changes = std::exchange(worker_->collected, {});
  const Lock lock(worker_->mutex);
  SavedBatch& pending = worker_->pending;
  const bool same = pending.revision == revision && pending.partial == worker_->collected_partial;
  if (changes.empty() && same) return;
  pending.revision = revision;
  pending.partial = worker_->collected_partial;
  if (!worker_->Accepts()) return;
  std::move(changes.begin(), changes.end(), std::back_inserter(pending.changes));
  worker_->Queue();
}

bool ObjectStore::Await() {
  Lock lock(worker_->mutex);
  if (worker_->state != Worker::State::kSaving) return false;
  const std::chrono::milliseconds limit = worker_->options.limit;
  if (!worker_->Finish(lock, worker_->queued_count, limit)) {
    worker_->Fail(NoResponse("write " + worker_->path, limit));
  }
  return worker_->status.error.empty();
}

bool ObjectStore::works() const {
  const Lock lock(worker_->mutex);
  return worker_->state == Worker::State::kSaving;
}

bool ObjectStore::needs_everything() const {
  const Lock lock(worker_->mutex);
  return worker_->state == Worker::State::kFailed && Clock::now() >= worker_->retry;
}

void ObjectStore::Rewrite(const std::function<void(const PutFn&)>& objects, uint64_t revision) {
  worker_->collected.clear();
  objects([this](Kind kind, const std::string& key, const std::string& message,
                 uint64_t first_seen) { Put(kind, key, message, first_seen); });
  std::vector<SavedChange> changes = std::exchange(worker_->collected, {});
  const Lock lock(worker_->mutex);
  SavedBatch& pending = worker_->pending;
  pending.revision = revision;
  pending.partial = worker_->collected_partial;
  if (worker_->state == Worker::State::kFailed) worker_->state = Worker::State::kRewriting;
  if (!worker_->Accepts()) return;
  pending.changes = std::move(changes);
  worker_->rewrites = true;
  worker_->Queue();
}

absl::Status ObjectStore::SaveLeader(const Leader& leader) {
  Lock lock(worker_->mutex);
  worker_->pending.leader = leader;
  const auto failed = [this] {
    return absl::UnavailableError("saving does not work: " + worker_->status.error);
  };
  if (!worker_->Accepts()) return failed();
  const std::chrono::milliseconds limit = 2 * worker_->options.limit;
  if (!worker_->Finish(lock, worker_->Queue(), limit)) {
    return NoResponse("write " + worker_->path, limit);
  }
  return worker_->status.error.empty() ? absl::OkStatus() : failed();
}

ObjectStoreStatus ObjectStore::status() const {
  const Lock lock(worker_->mutex);
  return worker_->status;
}

void ObjectStore::Stop() {
  Lock lock(worker_->mutex);
  if (worker_->state >= Worker::State::kStopping) return;
  worker_->state = Worker::State::kStopping;
  worker_->work.notify_one();
  worker_->stop.notify_one();
  const std::chrono::milliseconds limit = worker_->options.stop_limit;
  const bool ended =
      worker_->finished.wait_for(lock, limit, [this] { return worker_->ended_threads == 2; });
  if (!ended) worker_->Problem(std::string(NoResponse("stop", limit).message()));
  worker_->state = Worker::State::kStopped;
  lock.unlock();
  for (std::thread* thread : {&worker_->writer_thread, &worker_->sync_thread}) {
    // A thread that waits for a hung disk cannot be joined.
    ended ? thread->join() : thread->detach();
  }
}

absl::StatusOr<bool> RemoveSavedState(const std::string& folder) {
  std::vector<std::string> files;
  for (const std::string_view suffix : kDatabaseSuffixes) {
    for (const char* name : {kFile, kDamaged}) files.push_back(folder + name + std::string(suffix));
  }
  files.push_back(folder + "/lock");
  std::erase_if(files, [](const auto& file) { return absl::IsNotFound(CheckTrusted(file)); });
  if (files.empty()) return false;
  const absl::StatusOr<UniqueFd> lock = LockFolder(folder);
  if (!lock.ok()) return lock.status();
  for (const std::string& file : files) {
    if (absl::Status removed = RemoveFile(file); !removed.ok()) return removed;
  }
  return true;
}

}  // namespace svcmap::proxy
