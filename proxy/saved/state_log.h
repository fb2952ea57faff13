// Saves the received objects and the rows in the kernel to disk, so that a restart needs neither
// the controller nor a dump of the tables. StateLog is a write-ahead log in FOLDER/state. Each
// attempt is written before the batch is sent to the kernel. The outcome is written later, so that
// the response to the controller does not wait for this write. After a crash at any time, the log
// is correct, and the kernel's marker determines the outcome of the last attempt. See
// proxy/saved/README.md.
//
// The caller uses a single thread and never waits for a disk. Appended frames go to the page cache.
// A background thread syncs the file, and compacts the file when most of its records are out of
// date.
//
// Errors never affect the caller. After an error, the log reports the problem once and stops
// writing. After a delay, needs_everything() requests a complete rewrite. Before the rewrite, the
// old file is out of date. After a restart, the kernel's marker shows that the file is out of date.
// If the disk has too little space for the rewrite, the log removes the old file and retries.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/backoff.h"
#include "proxy/saved/files.h"
#include "proxy/saved/saved_state.h"

namespace svcmap::saved::v1 {
class Frame;
}

namespace svcmap::proxy {

class FrameBuilder;
class FrameFile;

struct StateLogOptions {
  // Name and version of the program, for information.
  std::string writer;
  std::chrono::milliseconds sync_interval{1000};  // Minimum interval between two syncs.
  // Delay between an error and the request for a rewrite (nft/base/backoff.h).
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds last_retry{60000};
  // The file is compacted if it exceeds this size and twice the size of its live records.
  uint64_t compact_above = uint64_t{4} << 20;
  // True if the log has its own thread. Otherwise, the caller must call Work().
  bool own_thread = true;
  // StateLog calls `on_problem` with a message for the operator when a damaged file is renamed,
  // when the log stops writing after an error, or when the log removes files because the disk is
  // full. The call may be made on any thread.
  std::function<void(const std::string&)> on_problem;
  // StateLog calls `on_shared_folder` at most once, if other users can change the directory.
  // `reason` is the directory's owner or mode.
  std::function<void(const std::string& reason)> on_shared_folder;
  // StateLog calls `on_recovery` when saving works again. The call may be made on any thread.
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
  // Opens or creates FOLDER/state, and reads the saved state into `found`. If `found` has an open
  // attempt, the caller must call End before the next Begin. End is optional if the next commit is
  // `whole`.
  //
  // A file that is damaged or has another format version is renamed and reported. StateLog uses no
  // part of the renamed file, and `found` is empty. Incomplete bytes at the end of the file that
  // were never synced are the result of a crash and do not count as damage.
  //
  // Returns an error only if another agent uses the folder. If the folder cannot be used, the log
  // starts in the disabled state.
  static absl::StatusOr<std::unique_ptr<StateLog>> Open(std::string folder, Files& files,
                                                        SavedState* found, StateLogOptions options);
  ~StateLog();  // Calls Stop().

  // Records that an object was accepted or removed. The next Begin or Flush writes the record.
  void PutObject(Kind kind, const std::string& key, const std::string& message,
                 uint64_t first_seen);
  void RemoveObject(Kind kind, const std::string& key);
  // Records whether the objects are a part of the first snapshot, which has not ended. The next
  // Begin or Flush writes the record. Does nothing if the value is unchanged.
  void SetPartial(bool partial);
  void Flush();

  // Call Begin before the batch is sent to the kernel. If the previous attempt is still open,
  // `commit` must be `whole`, and the previous outcome remains unknown.
  void Begin(const SavedCommit& commit);
  // Call End when the outcome is known, from the kernel's response or its marker. The next Begin or
  // Flush writes the outcome. Without the outcome, the marker decides after a crash. `generation`
  // is the kernel's generation id. `generation` is set only if no other process changed svcmap's
  // tables during the attempt.
  void End(bool committed, std::optional<uint32_t> generation);
  // Records that no other process changed svcmap's tables up to this generation id. The next write
  // or sync saves the id. After End, call Flush first: an outcome in a later frame would replace
  // the id.
  void NoteGeneration(uint32_t generation);

  // Requests that the background thread measures the live part of the file. Call Recount after the
  // removal of large or many objects, so that the file becomes smaller.
  void Recount();

  // Returns true if the log is disabled and a retry is due. If the result is true, the caller must
  // call Rewrite. Rewrite does nothing if needs_everything() returns false.
  bool needs_everything() const;
  using PutObjectFn = std::function<void(Kind, const std::string& key, const std::string& message,
                                         uint64_t first_seen)>;
  // Starts a new file with all objects and the kernel's content. `objects` must call its argument
  // with each object. `applied` is a `whole` commit, or null if the kernel's content is unknown.
  // The new file replaces the old file when the background thread has written the new file to disk.
  // Rewrite must be called between End and Begin.
  void Rewrite(const std::function<void(const PutObjectFn&)>& objects, const SavedCommit* applied,
               std::optional<uint32_t> generation);

  // Thread-safe. Returns the status without waiting for a disk.
  StateLogStatus status() const;

  // Writes all buffered data and waits until the data is on disk. StateLog writes nothing after
  // Stop.
  void Stop();

  // Runs one iteration of the background thread: syncs the file, and compacts the file if
  // necessary.
  void Work();

 private:
  using Clock = std::chrono::steady_clock;

  StateLog(std::string folder, Files& files, StateLogOptions options);

  absl::Status LockFolder();
  void WarnIfShared() const;
  void Load(absl::Status not_writable, SavedState* found);
  void RenameDamaged(const absl::Status& damage, const absl::Status& not_writable);
  void PruneDamaged();
  std::vector<std::string> DamagedFiles() const;
  std::string FreeSpace();
  void StartFile();
  bool Write();
  void Publish();
  std::shared_ptr<FrameFile> CurrentFile() const;
  void WriteAttempt(const SavedCommit& commit);
  void AddObject(const saved::v1::Frame& part);
  void AddPartial();

  void Run();
  bool HasWork() const;
  bool SyncFile();
  bool CompactIfDue();
  absl::StatusOr<bool> Compact(const std::shared_ptr<FrameFile>& old, uint64_t size);
  // `rewriting` is true if `status` is the error of a new file.
  void Fail(const FrameFile* file, const absl::Status& status, bool rewriting = false);
  void Problem(const std::string& line) const;

  std::string Path(const char* name) const { return folder_ + "/" + name; }

  const std::string folder_;
  Files& files_;
  const StateLogOptions options_;
  std::unique_ptr<File> lock_;

  // Only the caller's thread uses the following members.
  std::unique_ptr<FrameBuilder> frame_;
  std::unique_ptr<saved::v1::Frame> part_;
  bool open_ = false;  // True if the last attempt has no outcome yet.
  bool partial_ = false;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<FrameFile> file_;     // Null if the log is disabled after an error.
  bool unfinished_ = false;             // True if Rewrite is in progress.
  bool unnamed_ = false;                // True if the file does not have its final name yet.
  bool folder_changed_ = false;         // True if the folder has changed since its last sync.
  std::optional<uint32_t> generation_;  // Generation id that is recorded but not written yet.
  uint64_t compact_from_ = 0;           // Minimum file size for the next compaction.
  bool recount_ = false;                // True if a recount is due.
  Clock::time_point retry_;
  Backoff backoff_{options_.first_retry, options_.last_retry};
  StateLogStatus status_;
  mutable std::mutex published_mutex_;  // Locked only for a copy, after all other mutexes.
  StateLogStatus published_;            // Copy of status_ for other threads.
  bool stopping_ = false;
  std::thread thread_;
};

// Removes all files of a StateLog from the folder, but not the folder itself. Returns OK if the
// folder does not exist, and an error if an agent uses the folder.
absl::Status RemoveSavedState(const std::string& folder, Files& files);

}  // namespace svcmap::proxy
