// Saves the received objects to FOLDER/objects.db, an SQLite database, so that a restart needs no
// controller. proxy/saved/README.md describes the threads and the handling of errors, which never
// affect the caller. The caller never waits for a sync, and waits for a write only in Await(), for
// a limited time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/saved/object_writer.h"

namespace svcmap::proxy {

struct ObjectStoreOptions {
  // Limit for Await(). The limit for SaveLeader() is twice as long.
  std::chrono::milliseconds limit{1000};
  // Limits for a sync, Open() and Stop(), which wait for the disk. A longer sync is an error.
  std::chrono::milliseconds sync_limit{30000};
  std::chrono::milliseconds open_limit{10000};
  std::chrono::milliseconds stop_limit{5000};
  std::chrono::milliseconds sync_interval{1000};
  // Delay after an error until needs_everything() requests all objects. The delay grows from
  // first_retry to last_retry (nft/base/backoff.h).
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds last_retry{60000};
  // Name of the SQLite VFS. unix-excl holds the lock of the database and needs no shared memory,
  // whose pages a failed disk could not read. Tests register a VFS that fails or blocks.
  std::string vfs = "unix-excl";

  // The store calls the following functions on any thread, but not after Stop() has returned. They
  // must not call the store.
  // Called with a message for the operator when an unusable file is renamed, and when saving stops
  // after an error.
  std::function<void(const std::string&)> on_problem;
  // Called at most once, if other users can change the folder. `reason` is the owner or the mode.
  std::function<void(const std::string& reason)> on_shared_folder;
  std::function<void()> on_recovery;  // Called when saving works again.
};

struct ObjectStoreStatus {
  uint64_t bytes = 0;  // Size of the database and its log at the last sync.
  uint64_t failures = 0;
  std::string error;  // Reason why saving does not work. Empty if saving works.
  std::chrono::system_clock::time_point synced;  // Everything written before this time is on disk.
};

class ObjectStore : public ObjectWriter {
 public:
  // Opens or creates FOLDER/objects.db and reads the saved objects into `found`. A file that is
  // damaged or has another format version is renamed and reported, and `found` stays empty.
  //
  // Returns kFailedPrecondition if another agent uses the folder, and no other error. If the folder
  // cannot be used or the disk does not respond, saving does not work until a later batch contains
  // all objects.
  static absl::StatusOr<std::unique_ptr<ObjectStore>> Open(std::string folder,
                                                           ObjectStoreOptions options,
                                                           SavedObjects* found);
  ~ObjectStore() override;  // Calls Stop().

  // ObjectWriter. If Await() takes longer than options.limit, saving stops as after an error.
  void Write(SavedBatch batch) override;
  bool Await() override;
  bool works() const override;
  bool needs_everything() const override;

  // Methods for any thread.

  // Returns OK when the leader is on disk. After an error, a later batch with all objects also
  // saves the leader.
  absl::Status SaveLeader(const Leader& leader);
  ObjectStoreStatus status() const;

  // Waits for at most options.stop_limit until all transactions are on disk. The store writes
  // nothing after Stop.
  void Stop();

 private:
  struct Worker;

  explicit ObjectStore(std::shared_ptr<Worker> worker);

  const std::shared_ptr<Worker> worker_;
};

// Removes all files of the store from the folder, but not the folder itself. Returns true if a file
// was removed, false if there was none, and an error if an agent uses the folder.
absl::StatusOr<bool> RemoveSavedState(const std::string& folder);

}  // namespace svcmap::proxy
