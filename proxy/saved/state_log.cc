#include "proxy/saved/state_log.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "nft/base/status.h"
#include "proxy/saved/compaction.h"
#include "proxy/saved/frames.h"
#include "proxy/saved/leader_file.h"
#include "proxy/saved/records.h"
#include "proxy/saved/replay.h"

namespace svcmap::proxy {
namespace {

using SystemClock = std::chrono::system_clock;

constexpr char kState[] = "state";
constexpr char kRewritten[] = "state.new";
constexpr char kCompacted[] = "state.compacted";
constexpr char kLock[] = "lock";
constexpr std::string_view kDamaged = "state.damaged-";
constexpr size_t kMaxDamaged = 3;
// Number of Services that are encoded together. Bounds the memory of the message.
constexpr int kServicesInPart = 16;
// Maximum number of bytes to copy while the caller may have to wait.
constexpr uint64_t kSmallTail = uint64_t{64} << 10;
constexpr int kTailRounds = 8;

std::string Timestamp() {
  const std::time_t now = SystemClock::to_time_t(SystemClock::now());
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

absl::Status SyncAndFind(File& file) {
  if (absl::Status status = file.Sync(); !status.ok()) return status;
  const absl::StatusOr<bool> named = file.HasName();
  if (!named.ok()) return named.status();
  return *named ? absl::OkStatus() : absl::NotFoundError("the file was removed");
}

}  // namespace

StateLog::StateLog(std::string folder, Files& files, StateLogOptions options)
    : folder_(std::move(folder)),
      files_(files),
      options_(std::move(options)),
      frame_(std::make_unique<FrameBuilder>()),
      part_(std::make_unique<saved::v1::Frame>()) {}

absl::StatusOr<std::unique_ptr<StateLog>> StateLog::Open(std::string folder, Files& files,
                                                         SavedState* found,
                                                         StateLogOptions options) {
  *found = {};
  std::unique_ptr<StateLog> log(new StateLog(std::move(folder), files, std::move(options)));
  const absl::Status locked = log->LockFolder();
  if (absl::IsFailedPrecondition(locked)) return locked;
  log->WarnIfShared();
  log->Load(locked, found);
  log->open_ = found->attempt.has_value();
  log->partial_ = found->partial;
  log->Publish();
  if (log->options_.own_thread) log->thread_ = std::thread([raw = log.get()] { raw->Run(); });
  return log;
}

StateLog::~StateLog() { Stop(); }

absl::Status StateLog::LockFolder() {
  if (lock_ != nullptr) {
    const absl::StatusOr<bool> named = lock_->HasName();
    if (!named.ok() || *named) return named.status();
    lock_.reset();  // The lock file was deleted, so the folder may also have been deleted.
  }
  if (const absl::Status made = files_.MakeFolder(folder_); !made.ok()) return made;
  absl::StatusOr<std::unique_ptr<File>> file = files_.Open(Path(kLock), OpenMode::kLock);
  if (!file.ok()) return file.status();
  const absl::Status locked = (*file)->Lock();
  if (absl::IsUnavailable(locked)) {
    return absl::FailedPreconditionError("another agent uses the folder " + folder_);
  }
  if (locked.ok()) lock_ = *std::move(file);
  return locked;
}

void StateLog::WarnIfShared() const {
  const absl::Status checked = files_.CheckFolder(folder_);
  if (!absl::IsPermissionDenied(checked) || !options_.on_shared_folder) return;
  options_.on_shared_folder(std::string(checked.message()));
}

// Reads an existing file even if the folder is not writable.
void StateLog::Load(absl::Status not_writable, SavedState* found) {
  if (not_writable.ok()) {
    // Removes files left by an interrupted run. If the removal fails, a later write also fails and
    // reports the error.
    files_.Remove(Path(kRewritten)).IgnoreError();
    files_.Remove(Path(kCompacted)).IgnoreError();
  }
  absl::StatusOr<std::unique_ptr<File>> file =
      files_.Open(Path(kState), not_writable.ok() ? OpenMode::kUpdate : OpenMode::kRead);
  if (absl::IsDataLoss(file.status())) return RenameDamaged(file.status(), not_writable);
  if (not_writable.ok() && !file.ok()) {
    if (absl::IsNotFound(file.status())) return StartFile();
    not_writable = file.status();
    file = files_.Open(Path(kState), OpenMode::kRead);
  }
  if (!file.ok()) return Fail(nullptr, not_writable);

  const absl::StatusOr<uint64_t> size = (*file)->Size();
  // The file is empty if svcmapd was killed while it created the file.
  if (not_writable.ok() && size.ok() && *size == 0) return StartFile();
  absl::StatusOr<Replayed> replayed = Replay(**file);
  if (!replayed.ok()) return RenameDamaged(replayed.status(), not_writable);
  *found = std::move(replayed->state);
  if (!not_writable.ok()) return Fail(nullptr, not_writable);
  if (replayed->torn) {
    // The truncation must be on disk before new frames, so that the removed bytes cannot reappear.
    absl::Status cut = (*file)->Truncate(replayed->end);
    if (cut.ok()) cut = (*file)->Sync();
    if (!cut.ok()) return Fail(nullptr, cut);
  }
  file_ = std::make_shared<FrameFile>(*std::move(file), replayed->id, replayed->end);
  folder_changed_ = true;  // The previous run may have ended before the folder was synced.
  status_.live_bytes = replayed->live_bytes;
}

void StateLog::RenameDamaged(const absl::Status& damage, const absl::Status& not_writable) {
  const std::string name = std::string(kDamaged) + Timestamp();
  const absl::Status moved =
      not_writable.ok() ? files_.Rename(Path(kState), Path(name.c_str())) : not_writable;
  const bool other_version = absl::IsUnimplemented(damage);
  Problem(std::string(other_version ? "saved state has an unsupported format version, not using it"
                                    : "saved state is damaged, not using it") +
          " path=" + Path(kState) + " error=\"" + std::string(damage.message()) + "\"" +
          (moved.ok() ? " renamed_to=" + name
                      : " rename_error=\"" + std::string(moved.message()) + "\""));
  if (!moved.ok()) return Fail(nullptr, moved);
  PruneDamaged();
  StartFile();
}

void StateLog::PruneDamaged() {
  const std::vector<std::string> names = DamagedFiles();
  for (size_t i = kMaxDamaged; i < names.size(); ++i) {
    files_.Remove(Path(names[i].c_str())).IgnoreError();
  }
}

// Returns the names of the damaged files, newest first.
std::vector<std::string> StateLog::DamagedFiles() const {
  absl::StatusOr<std::vector<std::string>> names = files_.List(folder_);
  if (!names.ok()) return {};
  std::erase_if(*names, [](const std::string& name) { return name.rfind(kDamaged, 0) != 0; });
  std::sort(names->begin(), names->end(), std::greater<>());
  return *std::move(names);
}

// Removes the old state file, or the oldest damaged file if there is no state file. Call FreeSpace
// only if the old state file is out of date. Returns the name of the removed file, or an empty
// string.
std::string StateLog::FreeSpace() {
  if (files_.Remove(Path(kState)).ok()) return kState;
  const std::vector<std::string> damaged = DamagedFiles();
  if (damaged.empty() || !files_.Remove(Path(damaged.back().c_str())).ok()) return "";
  return damaged.back();
}

// The first file gets its final name immediately, because it replaces no other file.
void StateLog::StartFile() {
  absl::StatusOr<std::shared_ptr<FrameFile>> file =
      FrameFile::Create(files_, Path(kState), options_.writer);
  if (!file.ok()) return Fail(nullptr, file.status());
  file_ = *std::move(file);
  folder_changed_ = true;
}

// Methods that save changes and report the status.

void StateLog::PutObject(Kind kind, const std::string& key, const std::string& message,
                         uint64_t first_seen) {
  part_->Clear();
  saved::v1::Object& object = *part_->add_objects();
  object.set_kind(KindToNumber(kind));
  object.set_key(key);
  object.set_message(message);
  object.set_first_seen(first_seen);
  AddObject(*part_);
}

void StateLog::RemoveObject(Kind kind, const std::string& key) {
  part_->Clear();
  saved::v1::Object& object = *part_->add_objects();
  object.set_kind(KindToNumber(kind));
  object.set_key(key);
  AddObject(*part_);
}

void StateLog::AddObject(const saved::v1::Frame& part) {
  frame_->Add(part);
  if (frame_->size() >= kFrameTarget) Write();
}

void StateLog::SetPartial(bool partial) {
  if (std::exchange(partial_, partial) != partial) AddPartial();
}

void StateLog::AddPartial() {
  part_->Clear();
  part_->set_partial(partial_);
  frame_->Add(*part_);
}

void StateLog::Flush() {
  if (!frame_->empty()) Write();
}

void StateLog::Begin(const SavedCommit& commit) {
  if (open_ && !commit.whole) {
    // With two open attempts, the kernel's content would be unknown after a restart.
    const std::shared_ptr<FrameFile> file = CurrentFile();
    const absl::Status status =
        absl::InternalError("new attempt while the previous attempt is open");
    if (file != nullptr) Fail(file.get(), status);
  }
  WriteAttempt(commit);
  open_ = true;
}

// Writes an attempt in as many frames as necessary. The attempt becomes valid with its last frame.
void StateLog::WriteAttempt(const SavedCommit& commit) {
  const auto add = [this] {
    frame_->Add(*part_);
    part_->Clear();
  };
  part_->Clear();
  ToMessage(commit.marker, *part_->mutable_begin()->mutable_marker());
  part_->mutable_begin()->set_whole(commit.whole);
  for (const auto& [key, rows] : commit.services) {
    saved::v1::Service& service = *part_->add_services();
    service.set_key(key);
    ToMessage(*rows, service);
    if (part_->services_size() < kServicesInPart) continue;
    add();
    if (frame_->size() >= kFrameTarget && !Write()) return;
  }
  if (commit.node_rows != nullptr) ToMessage(*commit.node_rows, *part_->mutable_node_rows());
  if (commit.tables != nullptr) ToMessage(*commit.tables, *part_->mutable_tables());
  part_->set_asked(true);
  ToMessage(commit.next_numbers, *part_->mutable_next_numbers());
  add();
  Write();
}

void StateLog::End(bool committed, std::optional<uint32_t> generation) {
  if (!std::exchange(open_, false)) return;
  {
    const std::lock_guard lock(mutex_);
    generation_.reset();  // The recorded generation is older than `generation`.
  }
  part_->Clear();
  part_->mutable_outcome()->set_committed(committed);
  if (generation) part_->mutable_outcome()->set_generation(*generation);
  frame_->Add(*part_);
}

void StateLog::NoteGeneration(uint32_t generation) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    wake = !HasWork();
    generation_ = generation;
  }
  if (wake) wake_.notify_one();
}

void StateLog::Recount() {
  {
    const std::lock_guard lock(mutex_);
    recount_ = true;
  }
  wake_.notify_one();
}

// Appends one frame to the file. Does nothing if the log is disabled after an error.
bool StateLog::Write() {
  absl::Status status;
  std::shared_ptr<FrameFile> file;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    file = file_;
    if (file == nullptr) {
      frame_->Clear();
      return false;
    }
    if (generation_) {
      part_->Clear();
      part_->mutable_generation()->set_id(*std::exchange(generation_, std::nullopt));
      frame_->Add(*part_);
    }
    wake = !HasWork();
    const bool large = frame_->size() > 4 * kFrameTarget;
    status = file->Append(*frame_);
    Publish();
    if (large) {  // Large frames are rare, so their memory is released.
      *frame_ = FrameBuilder();
      *part_ = saved::v1::Frame();
    }
  }
  if (!status.ok()) Fail(file.get(), status);
  if (wake) wake_.notify_one();
  return status.ok();
}

bool StateLog::needs_everything() const {
  const std::lock_guard lock(mutex_);
  return file_ == nullptr && !stopping_ && Clock::now() >= retry_;
}

void StateLog::Rewrite(const std::function<void(const PutObjectFn&)>& objects,
                       const SavedCommit* applied, std::optional<uint32_t> generation) {
  if (CurrentFile() != nullptr) return;
  if (const absl::Status locked = LockFolder(); !locked.ok()) return Fail(nullptr, locked);
  absl::StatusOr<std::shared_ptr<FrameFile>> file =
      FrameFile::Create(files_, Path(kRewritten), options_.writer);
  if (!file.ok()) return Fail(nullptr, file.status(), /*rewriting=*/true);
  {
    const std::lock_guard lock(mutex_);
    file_ = *std::move(file);
    unfinished_ = unnamed_ = true;
  }
  frame_->Clear();
  open_ = false;
  AddPartial();
  objects([this](Kind kind, const std::string& key, const std::string& message,
                 uint64_t first_seen) { PutObject(kind, key, message, first_seen); });
  if (applied != nullptr) {
    Begin(*applied);
    End(true, generation);
  }
  Flush();
  {
    const std::lock_guard lock(mutex_);
    unfinished_ = false;
    if (file_ != nullptr) status_.live_bytes = file_->size();
    Publish();
  }
  wake_.notify_one();
}

std::shared_ptr<FrameFile> StateLog::CurrentFile() const {
  const std::lock_guard lock(mutex_);
  return file_;
}

// The caller must hold mutex_. A thread that waits for a hung disk may hold mutex_ for a long time,
// so readers of the status use published_mutex_ instead.
void StateLog::Publish() {
  const std::lock_guard lock(published_mutex_);
  published_ = status_;
  published_.bytes = file_ == nullptr ? 0 : file_->size();
}

StateLogStatus StateLog::status() const {
  const std::lock_guard lock(published_mutex_);
  return published_;
}

void StateLog::Stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  Flush();
  if (SyncFile()) {
    // Writes a frame that declares all earlier frames to be on disk, so that later damage can be
    // detected.
    Write();
    SyncFile();
  }
  const std::lock_guard lock(mutex_);
  file_.reset();
  lock_.reset();
}

// Methods of the background thread.

bool StateLog::HasWork() const {
  return file_ != nullptr && !unfinished_ &&
         (file_->size() != file_->synced() || unnamed_ || folder_changed_ || generation_ ||
          recount_);
}

void StateLog::Run() {
  Clock::time_point next;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || HasWork(); });
    if (wake_.wait_until(lock, next, [this] { return stopping_; })) return;
    lock.unlock();
    Work();
    lock.lock();
    next = Clock::now() + options_.sync_interval;
  }
}

void StateLog::Work() {
  if (SyncFile() && CompactIfDue()) SyncFile();
}

// Waits until all written frames are on disk, in the file with the final name. Returns false if the
// log is disabled after an error.
bool StateLog::SyncFile() {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<FrameFile> file = file_;
  if (file == nullptr || unfinished_) return false;
  absl::Status status;
  if (generation_) {
    saved::v1::Frame part;
    part.mutable_generation()->set_id(*std::exchange(generation_, std::nullopt));
    FrameBuilder frame;
    frame.Add(part);
    status = file->Append(frame);
  }
  const uint64_t size = file->size();
  const bool changed = size != file->synced();
  const SystemClock::time_point now = SystemClock::now();
  lock.unlock();
  if (status.ok() && changed) status = SyncAndFind(file->file());
  lock.lock();
  if (file_ != file) return false;  // The log was disabled after an error during the sync.
  if (status.ok() && unnamed_) {
    status = files_.Rename(Path(kRewritten), Path(kState));
    folder_changed_ = true;
  }
  const bool sync_folder = folder_changed_;
  lock.unlock();
  if (status.ok() && sync_folder) status = files_.SyncFolder(folder_);
  if (!status.ok()) {
    Fail(file.get(), status);
    return false;
  }
  lock.lock();
  if (file_ != file) return false;
  file->SetSynced(size);
  unnamed_ = folder_changed_ = false;
  backoff_.Success();
  status_.synced = now;
  const bool recovered = !std::exchange(status_.error, "").empty();
  Publish();
  lock.unlock();
  if (recovered && options_.on_recovery) options_.on_recovery();
  return true;
}

// Returns true if the file was compacted.
bool StateLog::CompactIfDue() {
  std::shared_ptr<FrameFile> file;
  uint64_t size = 0;
  {
    const std::lock_guard lock(mutex_);
    file = file_;
    size = file == nullptr ? 0 : file->size();
    const bool grown = size > 2 * status_.live_bytes && size >= compact_from_;
    const bool recount = std::exchange(recount_, false);
    if (size <= options_.compact_above || (!grown && !recount)) return false;
    compact_from_ = size + size / 4;  // Retries after the file has grown by a quarter.
  }
  const absl::StatusOr<bool> done = Compact(file, size);
  if (done.ok()) return *done;
  files_.Remove(Path(kCompacted)).IgnoreError();
  // Stops writing, because a damaged file is not used after a restart.
  if (absl::IsDataLoss(done.status())) {
    Fail(file.get(), done.status());
  } else {
    Problem("compacting the saved state failed, the file continues to grow path=" + Path(kState) +
            " error=\"" + std::string(done.status().message()) + "\"");
  }
  return false;
}

absl::StatusOr<bool> StateLog::Compact(const std::shared_ptr<FrameFile>& old, uint64_t size) {
  Compaction compaction(old->file(), old->id());
  if (const absl::Status status = compaction.Measure(size); !status.ok()) return status;
  {
    const std::lock_guard lock(mutex_);
    status_.live_bytes = compaction.live_bytes();
    Publish();
  }
  if (size <= 2 * compaction.live_bytes()) return false;
  absl::StatusOr<std::shared_ptr<FrameFile>> fresh =
      compaction.Write(files_, Path(kCompacted), options_.writer);
  if (!fresh.ok()) return fresh.status();

  // Copies the frames that were appended during the compaction, until only a few are left. The new
  // file may replace the old file at any time after the sync. Before the sync, the new file must
  // therefore contain everything that is on disk in the old file.
  const auto old_size = [&] {
    const std::lock_guard lock(mutex_);
    return old->size();
  };
  uint64_t end = old_size();
  for (int round = 0; end - compaction.copied() > kSmallTail; end = old_size()) {
    if (++round > kTailRounds)
      return absl::UnavailableError("the file changes faster than it can be copied");
    if (const absl::Status status = compaction.CopyTail(**fresh, end); !status.ok()) return status;
  }
  if (const absl::Status status = (*fresh)->file().Sync(); !status.ok()) return status;
  const uint64_t synced = (*fresh)->size();

  const std::lock_guard lock(mutex_);
  if (file_ != old) return absl::AbortedError("saving was disabled during the compaction");
  absl::Status status = compaction.CopyTail(**fresh, old->size());
  if (status.ok()) status = files_.Rename(Path(kCompacted), Path(kState));
  if (!status.ok()) return status;
  (*fresh)->SetSynced(synced);
  file_ = *std::move(fresh);
  folder_changed_ = true;
  ++status_.compactions;
  compact_from_ = 0;
  Publish();
  return true;
}

// Disables the log after an error. Does nothing if `file` is no longer the current file.
void StateLog::Fail(const FrameFile* file, const absl::Status& status, bool rewriting) {
  bool first = false;
  std::string removed;
  {
    const std::lock_guard lock(mutex_);
    if (file_.get() != file) return;
    // Removes the unfinished new file, because it may have filled the disk.
    if (unnamed_) files_.Remove(Path(kRewritten)).IgnoreError();
    // The old file is out of date, and may occupy the space that the new file needs.
    if ((unnamed_ || rewriting) && IsNoSpace(status)) removed = FreeSpace();
    file_.reset();
    unfinished_ = unnamed_ = folder_changed_ = false;
    generation_.reset();
    ++status_.failures;
    retry_ = Clock::now() + backoff_.Failure();
    if (!removed.empty()) retry_ = Clock::now();
    first = status_.error.empty();
    if (first) status_.error_since = SystemClock::now();
    status_.error = folder_ + ": " + std::string(status.message());
    Publish();
  }
  if (!removed.empty()) {
    Problem("no space for the complete state, removed an outdated file path=" +
            Path(removed.c_str()));
  }
  if (!first) return;
  Problem(
      "saving the state failed, traffic is not affected, but after a restart svcmapd does not "
      "modify the rules until a controller sends a snapshot path=" +
      folder_ + " error=\"" + std::string(status.message()) + "\"");
}

void StateLog::Problem(const std::string& line) const {
  if (options_.on_problem) options_.on_problem(line);
}

absl::Status RemoveSavedState(const std::string& folder, Files& files) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(folder);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  const absl::StatusOr<std::unique_ptr<File>> lock =
      files.Open(folder + "/" + kLock, OpenMode::kLock);
  if (!lock.ok()) return lock.status();
  if (absl::IsUnavailable((*lock)->Lock())) {
    return absl::FailedPreconditionError("an agent uses the folder " + folder);
  }
  for (const std::string& name : *names) {
    const bool ours = name == kState || name == kRewritten || name == kCompacted || name == kLock ||
                      name == LeaderFile::kName || name == LeaderFile::kNewName ||
                      name.starts_with(kDamaged);
    if (!ours) continue;
    if (const absl::Status removed = files.Remove(std::string(folder).append("/").append(name));
        !removed.ok()) {
      return removed;
    }
  }
  return absl::OkStatus();
}

}  // namespace svcmap::proxy
