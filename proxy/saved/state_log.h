// Keeps what we were told and what the kernel holds on disk, so that a restart knows both without
// being told or reading it again. A write-ahead log in FOLDER/state: the attempt is written before
// the kernel is asked, the outcome after. Killed at any moment, the file says what is true, and the
// kernel's marker settles the last attempt. proxy/saved/README.md says how.
//
// The caller is one thread, and never waits for a disk: appending goes to the page cache, a
// background thread syncs, and writes the file anew when most of it is out of date.
//
// Nothing here fails the caller. On any error the log goes out of order: it says so once, takes
// nothing more, and asks for everything once it is worth another try. The file that is left behind
// then is older than the kernel, and does not pass for current: its marker is not the kernel's.
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
  std::string writer;  // The program and its version, for people who look at the file.
  std::chrono::milliseconds sync_interval{1000};  // At least, between two syncs.
  // From an error until everything is asked for; doubled each time, less up to half by chance.
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds last_retry{60000};
  // The file is written anew when it is larger than this, and than twice what of it is alive.
  uint64_t compact_above = uint64_t{4} << 20;
  // Without a thread of its own the caller calls Work().
  bool own_thread = true;
  // The file was set aside, or the log goes out of order; a line for the operator. On any thread.
  std::function<void(const std::string&)> on_problem;
  std::function<void()> on_recovery;  // It is in order again. On any thread.
};

struct StateLogStatus {
  uint64_t bytes = 0;        // Of the file.
  uint64_t live_bytes = 0;   // Of them, when they were last counted.
  uint64_t compactions = 0;  // Written anew because of the difference.
  uint64_t failures = 0;
  std::string error;  // Why it is out of order; empty: it is not.
  std::chrono::system_clock::time_point error_since;
  std::chrono::system_clock::time_point synced;  // What was written before this is on disk.
};

class StateLog {
 public:
  // Opens or makes FOLDER/state, and fills `found` with what it says. If that leaves an attempt
  // open, the caller settles it with End before the next Begin that is not whole.
  //
  // A file that is damaged, or of another version of the format, is set aside with a message and
  // not trusted, not even its undamaged front; `found` is empty then. What a crash leaves is no
  // damage: at the end of the file, bytes that were not on disk yet.
  //
  // Fails only if another agent uses the folder. With a folder that cannot be used the log is out
  // of order from the start.
  static absl::StatusOr<std::unique_ptr<StateLog>> Open(std::string folder, Files& files,
                                                        SavedState* found, StateLogOptions options);
  ~StateLog();  // Stops.

  // An object was accepted, or removed. Written with the next Begin or Flush.
  void PutObject(Kind kind, const std::string& key, const std::string& message);
  void RemoveObject(Kind kind, const std::string& key);
  void Flush();

  // Before the kernel is asked. An attempt that is still open stays unsettled for good; that is
  // allowed only if the new one is whole.
  void Begin(const SavedCommit& commit);
  // After the kernel has answered, or its marker has. `generation`: its generation id, if no
  // commit of others came in between, or what came left our tables alone.
  void End(bool committed, std::optional<uint32_t> generation);
  // All commits up to this id are ours or have left our tables alone. Written with the next write,
  // or the next sync.
  void NoteGeneration(uint32_t generation);

  // It is out of order, and time for another try: call Rewrite, which does nothing otherwise.
  bool needs_everything() const;
  using PutObjectFn = std::function<void(Kind, const std::string& key, const std::string& message)>;
  // Starts a new file with all objects, which `objects` hands to its argument, and with what the
  // kernel holds: `applied` is a whole commit; null if it is not known. The file counts once the
  // background thread has it on disk; until then the old one stays. Between End and Begin.
  void Rewrite(const std::function<void(const PutObjectFn&)>& objects, const SavedCommit* applied,
               std::optional<uint32_t> generation);

  // Any thread.
  StateLogStatus status() const;

  // Writes what is buffered and waits until all of it is on disk. Nothing is written afterwards.
  void Stop();

  // What the background thread does when it is woken: syncs, and compacts if that is due.
  void Work();

 private:
  using Clock = std::chrono::steady_clock;

  StateLog(std::string folder, Files& files, StateLogOptions options);

  absl::Status LockFolder();
  void WarnIfShared() const;
  void Load(absl::Status not_writable, SavedState* found);
  void SetAside(const absl::Status& damage, const absl::Status& not_writable);
  void PruneSetAside();
  void StartFile();
  bool Write();
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

  // The caller's.
  std::unique_ptr<FrameBuilder> frame_;
  std::unique_ptr<saved::v1::Frame> part_;
  bool open_ = false;  // An attempt has no outcome yet.

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<FrameFile> file_;     // Null: out of order.
  bool unfinished_ = false;             // Rewrite is still at it.
  bool unnamed_ = false;                // Not under its name yet.
  bool folder_changed_ = false;         // Since it was synced.
  std::optional<uint32_t> generation_;  // Noted and not written yet.
  uint64_t compact_from_ = 0;           // So large the file has to be to be measured again.
  Clock::time_point retry_;
  int failures_in_row_ = 0;
  std::minstd_rand random_{std::random_device()()};
  StateLogStatus status_;
  bool stopping_ = false;
  std::thread thread_;
};

// Removes what StateLogs leave in the folder, but not the folder; OK if it is not there. Fails if
// an agent uses it.
absl::Status RemoveSavedState(const std::string& folder, Files& files);

}  // namespace svcmap::proxy
