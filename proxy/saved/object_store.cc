#include "proxy/saved/object_store.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
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
    kSaving,    // All changes are written or pending.
    kFailed,    // After an error, changes are dropped until the caller passes everything.
    kStopping,  // The threads end when nothing is pending.
    kStopped,   // The functions of the options must not be called any more.
  };

  Worker(std::string folder_path, ObjectStoreOptions store_options)
      : folder(std::move(folder_path)),
        path(folder + kFile),
        options(std::move(store_options)),
        backoff(options.first_retry, options.last_retry) {}

  // The caller of the following functions must hold the mutex.
  // False also after an error until everything is written.
  bool Works() const { return state == State::kSaving && status.error.empty(); }
  bool Finish(Lock& lock, uint64_t count, std::chrono::milliseconds limit);
  void Fail(const absl::Status& error);
  void Problem(const std::string& line);

  void RunWriter();
  void WritePending(Lock& lock);
  void CloseFile(Lock& lock);
  absl::StatusOr<FilePtr> OpenFile(bool outdated, SavedObjects* found);

  void RunSync();

  const std::string folder;
  const std::string path;  // Of the database.
  const ObjectStoreOptions options;

  std::mutex mutex;
  std::condition_variable work;      // Wakes the writing thread.
  std::condition_variable stop;      // Wakes the thread that syncs.
  std::condition_variable finished;  // Wakes all threads that wait for a result.
  State state = State::kSaving;
  SavedBatch pending;  // What the writing thread must write next.
  Leader leader;
  uint64_t queued_count = 1;    // The start, and number of calls that have added pending work.
  uint64_t finished_count = 0;  // Of these, calls whose work was written or dropped.
  absl::StatusOr<SavedObjects> start = SavedObjects();
  std::optional<Clock::time_point> sync_start;  // Present while the other thread uses the file.
  // Time of the next attempt. Absent until the writing thread has closed the file after an error.
  std::optional<Clock::time_point> retry;
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

// Waits until the work of the first `count` calls is written or dropped.
bool ObjectStore::Worker::Finish(Lock& lock, uint64_t count, std::chrono::milliseconds limit) {
  return finished.wait_for(lock, limit, [&] { return finished_count >= count; });
}

// Stops saving.
void ObjectStore::Worker::Fail(const absl::Status& error) {
  if (state < State::kStopping) state = State::kFailed;
  pending.objects.clear();
  pending.everything = false;
  finished_count = queued_count;
  retry.reset();
  ++status.failures;
  const bool first = status.error.empty();
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
  absl::StatusOr<FilePtr> opened = OpenFile(/*outdated=*/false, &loaded);
  const std::string shared = ChangeableByOthers(folder);
  Lock lock(mutex);
  if (!shared.empty() && state != State::kStopped && options.on_shared_folder) {
    options.on_shared_folder(shared);
  }
  if (finished_count == 0) {  // Open() still waits.
    finished_count = 1;
    start = std::move(loaded);
    if (absl::IsFailedPrecondition(opened.status())) {
      start = opened.status();
      state = State::kStopped;
    } else if (!opened.ok()) {
      Fail(opened.status());
    }
    finished.notify_all();
  }
  if (opened.ok()) file = *std::move(opened);
  for (;;) {
    if (finished_count < queued_count) {
      WritePending(lock);
    } else if (state == State::kFailed && !retry) {
      CloseFile(lock);
      retry = Clock::now() + backoff.Failure();
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
  const SavedBatch batch =
      std::exchange(pending, {.partial = pending.partial, .revision = pending.revision});
  const Leader new_leader = leader;
  lock.unlock();
  SavedObjects none;
  const bool reopens = file == nullptr;  // After an error. The batch contains everything.
  absl::StatusOr<FilePtr> opened = reopens ? OpenFile(/*outdated=*/true, &none) : nullptr;
  absl::Status written = opened.status();
  // The leader is saved even if the objects need more space than the disk has.
  if (written.ok() && reopens) written = (*opened)->Write({}, new_leader);
  if (written.ok()) written = (reopens ? *opened : file)->Write(batch, new_leader);
  // On a full disk, the sync may fail although the write does not.
  if (written.ok() && reopens) written = (*opened)->Sync().status();
  if (absl::IsResourceExhausted(written)) RemoveFile(folder + kDamaged).IgnoreError();
  lock.lock();
  if (reopens && opened.ok()) file = *std::move(opened);
  if (finished_count >= count) return;  // The disk has not responded in time.
  if (!written.ok()) return Fail(written);
  finished_count = count;
  finished.notify_all();
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

// Locks the folder and opens the file. Removes an outdated file first, also to free its space.
// Renames a damaged file and creates a new one.
absl::StatusOr<FilePtr> ObjectStore::Worker::OpenFile(bool outdated, SavedObjects* found) {
  folder_lock.Close();  // The folder may have been replaced since the last call.
  absl::StatusOr<UniqueFd> locked = LockFolder(folder);
  if (!locked.ok()) return locked.status();
  folder_lock = *std::move(locked);
  if (outdated) {
    if (absl::Status removed = RemoveDatabase(path); !removed.ok()) return removed;
  }
  absl::StatusOr<FilePtr> opened = ObjectFile::Open(path, options.vfs, found);
  if (!absl::IsDataLoss(opened.status())) return opened;
  const absl::Status moved = SetAside(path, folder + kDamaged);
  {
    const Lock lock(mutex);
    Problem("not using the saved state path=" + path + " error=\"" +
            std::string(opened.status().message()) + "\"" +
            (moved.ok() ? " renamed_to=" + folder + kDamaged
                        : " rename_error=\"" + std::string(moved.message()) + "\""));
  }
  if (!moved.ok()) return moved;
  return ObjectFile::Open(path, options.vfs, found);
}

// The thread that syncs.

void ObjectStore::Worker::RunSync() {
  Lock lock(mutex);
  const auto stopping = [this] { return state >= State::kStopping; };
  while (!stop.wait_for(lock, options.sync_interval, stopping)) {
    if (state != State::kSaving || file == nullptr) continue;
    const auto now = std::chrono::system_clock::now();
    sync_start = Clock::now();
    lock.unlock();
    const absl::StatusOr<bool> complete = file->Sync();
    const uint64_t bytes = file->bytes();
    lock.lock();
    sync_start.reset();
    finished.notify_all();
    if (state == State::kFailed) continue;  // The sync took too long, or a write failed.
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
  if (!worker->Finish(lock, 1, limit)) worker->Fail(NoResponse("open " + worker->path, limit));
  if (!worker->start.ok()) {
    lock.unlock();
    worker->writer_thread.join();
    return worker->start.status();
  }
  *found = *std::exchange(worker->start, SavedObjects());
  worker->leader = found->leader;
  worker->pending.revision = found->revision;
  worker->pending.partial = found->partial;
  worker->sync_thread = std::thread([worker] { worker->RunSync(); });
  return std::unique_ptr<ObjectStore>(new ObjectStore(worker));
}

void ObjectStore::Write(SavedBatch batch) {
  const Lock lock(worker_->mutex);
  if (batch.everything && worker_->state == Worker::State::kFailed) {
    worker_->state = Worker::State::kSaving;
  }
  SavedBatch& pending = worker_->pending;
  const bool same = pending.revision == batch.revision && pending.partial == batch.partial;
  if (worker_->state != Worker::State::kSaving ||
      (same && batch.objects.empty() && !batch.everything))
    return;
  if (!batch.everything) {
    std::ranges::move(batch.objects, std::back_inserter(pending.objects));
    batch.objects = std::move(pending.objects);
    batch.everything = pending.everything;
  }
  pending = std::move(batch);
  ++worker_->queued_count;
  worker_->work.notify_one();
}

bool ObjectStore::Await() {
  Lock lock(worker_->mutex);
  if (!worker_->Works()) return false;
  const std::chrono::milliseconds limit = worker_->options.limit;
  if (!worker_->Finish(lock, worker_->queued_count, limit)) {
    worker_->Fail(NoResponse("write " + worker_->path, limit));
  }
  return worker_->status.error.empty();
}

bool ObjectStore::works() const {
  const Lock lock(worker_->mutex);
  return worker_->Works();
}

bool ObjectStore::needs_everything() const {
  const Lock lock(worker_->mutex);
  return worker_->state == Worker::State::kFailed && worker_->retry &&
         Clock::now() >= *worker_->retry;
}

absl::Status ObjectStore::SaveLeader(const Leader& leader) {
  Lock lock(worker_->mutex);
  worker_->leader = leader;
  const auto failed = [this] {
    return absl::UnavailableError("saving does not work: " + worker_->status.error);
  };
  if (worker_->state != Worker::State::kSaving) return failed();
  const uint64_t count = ++worker_->queued_count;
  worker_->work.notify_one();
  const std::chrono::milliseconds limit = 2 * worker_->options.limit;
  if (!worker_->Finish(lock, count, limit)) return NoResponse("write " + worker_->path, limit);
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
  std::vector<std::string> files = {folder + kDamaged, folder + "/lock"};
  for (const std::string_view suffix : kDatabaseSuffixes) {
    files.push_back(folder + kFile + std::string(suffix));
  }
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
