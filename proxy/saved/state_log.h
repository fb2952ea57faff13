// Saves the received objects and the rows in the kernel to disk, so that a restart needs neither
// the controller nor a dump of the tables. StateLog is a write-ahead log in FOLDER/state: each
// attempt is written before the batch is sent to the kernel, and the outcome afterwards. After a
// crash at any time, the log is correct, and the kernel's marker determines the outcome of the last
// attempt. See proxy/saved/README.md.
//
// The caller uses a single thread and never waits for a disk. Appended frames go to the page cache.
// A background thread syncs the file, and compacts the file when most of its records are out of
// date.
//
// Errors never affect the caller. After an error, the log reports the problem once and stops
// writing. After a delay, needs_everything() requests a complete rewrite. Until then, the old file
// is out of date. The kernel's marker reveals this after a restart.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "proxy/saved/files.h"
#include "proxy/saved/saved_state.h"

namespace svcmap::saved::v1 {
class Frame;
}

namespace svcmap::proxy {

class FrameBuilder;
class FrameFile;

struct StateLogOptions {
  std::string writer;                             // Program and version. Informational.
  std::chrono::milliseconds sync_interval{1000};  // Minimum interval between two syncs.
  // Delay between an error and the request for a rewrite. Doubled after each failure, minus up to
  // half at random.
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds last_retry{60000};
  // The file is compacted if it exceeds this size and twice the size of its live records.
  uint64_t compact_above = uint64_t{4} << 20;
  // If false, the caller calls Work().
  bool own_thread = true;
  // Called with a message for the operator when a damaged file is renamed, or when the log stops
  // writing after an error. May be called on any thread.
  std::function<void(const std::string&)> on_problem;
  // Called at most once, if other users can change the directory. `reason` is the directory's owner
  // or mode.
  std::function<void(const std::string& reason)> on_shared_folder;
  // Called when saving works again. May be called on any thread.
  std::function<void()> on_recovery;
};

struct StateLogStatus {
  uint64_t bytes = 0;        // Size of the file.
  uint64_t live_bytes = 0;   // Size of the live records when last measured.
  uint64_t compactions = 0;  // Number of times the file was compacted because of its size.
  uint64_t failures = 0;
  std::string error;  // The error that disabled the log. Empty if the log is enabled.
  std::chrono::system_clock::time_point error_since;
  std::chrono::system_clock::time_point synced;  // Everything written before this time is on disk.
};

class StateLog {
 public:
  // Opens or creates FOLDER/state and reads it into `found`. If `found` has an open attempt, the
  // caller must call End before the next Begin. End is optional if the next commit is `whole`.
  //
  // A file that is damaged or has another format version is renamed and reported. No part of such a
  // file is used, and `found` is empty. Incomplete bytes at the end of the file that were never
  // synced are the result of a crash and do not count as damage.
  //
  // Returns an error only if another agent uses the folder. If the folder cannot be used, the log
  // starts in the disabled state.
  static absl::StatusOr<std::unique_ptr<StateLog>> Open(std::string folder, Files& files,
                                                        SavedState* found, StateLogOptions options);
  ~StateLog();  // Calls Stop().

  // Records that an object was accepted or removed. Written by the next Begin or Flush.
  void PutObject(Kind kind, const std::string& key, const std::string& message);
  void RemoveObject(Kind kind, const std::string& key);
  void Flush();

  // Call before the batch is sent to the kernel. If the previous attempt is still open, `commit`
  // must be `whole`, and the previous outcome remains unknown.
  void Begin(const SavedCommit& commit);
  // Call when the outcome is known, from the kernel's response or its marker. `generation` is the
  // kernel's generation id. `generation` is set only if no other process committed in between, or
  // if those commits did not change our tables.
  void End(bool committed, std::optional<uint32_t> generation);
  // Records that all commits up to this id are our own or did not change our tables. Written by the
  // next write or sync.
  void NoteGeneration(uint32_t generation);

  // Makes the background thread measure how much of the file is still valid. Call it after many
  // bytes of objects were removed, so that the file becomes smaller.
  void Recount();

  // Returns true if the log is disabled and a retry is due. If true, the caller must call Rewrite.
  // Rewrite does nothing at other times.
  bool needs_everything() const;
  using PutObjectFn = std::function<void(Kind, const std::string& key, const std::string& message)>;
  // Starts a new file with all objects and the kernel's content. `objects` passes each object to
  // its argument. `applied` is a `whole` commit, or null if the kernel's content is unknown. The
  // new file replaces the old file when the background thread has written it to disk. Must be
  // called between End and Begin.
  void Rewrite(const std::function<void(const PutObjectFn&)>& objects, const SavedCommit* applied,
               std::optional<uint32_t> generation);

  // Thread-safe. Never waits for a disk.
  StateLogStatus status() const;

  // Writes all buffered data and waits until it is on disk. Nothing is written afterwards.
  void Stop();

  // One iteration of the background thread: syncs the file, and compacts it if necessary.
  void Work();

 private:
  using Clock = std::chrono::steady_clock;

  StateLog(std::string folder, Files& files, StateLogOptions options);

  absl::Status LockFolder();
  void WarnIfShared() const;
  void Load(absl::Status not_writable, SavedState* found);
  void RenameDamaged(const absl::Status& damage, const absl::Status& not_writable);
  void PruneDamaged();
  void StartFile();
  bool Write();
  void Publish();
  std::shared_ptr<FrameFile> CurrentFile() const;
  void WriteAttempt(const SavedCommit& commit);
  void AddObject(const saved::v1::Frame& part);

  void Run();
  bool HasWork() const;
  bool SyncFile();
  bool CompactIfDue();
  absl::StatusOr<bool> Compact(const std::shared_ptr<FrameFile>& old, uint64_t size);
  void Fail(const FrameFile* file, const absl::Status& status);
  void Problem(const std::string& line) const;

  std::string Path(const char* name) const { return folder_ + "/" + name; }

  const std::string folder_;
  Files& files_;
  const StateLogOptions options_;
  std::unique_ptr<File> lock_;

  // Used only by the caller's thread.
  std::unique_ptr<FrameBuilder> frame_;
  std::unique_ptr<saved::v1::Frame> part_;
  bool open_ = false;  // True if the last attempt has no outcome yet.

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<FrameFile> file_;     // Null if the log is disabled after an error.
  bool unfinished_ = false;             // True if Rewrite is in progress.
  bool unnamed_ = false;                // The file does not have its final name yet.
  bool folder_changed_ = false;         // True if the folder has changed since its last sync.
  std::optional<uint32_t> generation_;  // Generation id that is recorded but not written yet.
  uint64_t compact_from_ = 0;           // Minimum file size for the next compaction.
  bool recount_ = false;                // Set by Recount.
  Clock::time_point retry_;
  int failures_in_row_ = 0;
  std::minstd_rand random_{std::random_device()()};
  StateLogStatus status_;
  mutable std::mutex published_mutex_;  // Locked only for a copy, and after all other mutexes.
  StateLogStatus published_;            // Copy of status_ for other threads.
  bool stopping_ = false;
  std::thread thread_;
};

// Removes all files of a StateLog from the folder, but not the folder. Returns OK if the folder
// does not exist, and an error if an agent uses the folder.
absl::Status RemoveSavedState(const std::string& folder, Files& files);

}  // namespace svcmap::proxy
