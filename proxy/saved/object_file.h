// An SQLite database with the saved objects. SQLite's write-ahead log makes each transaction
// atomic. SQLite has no checksums for table contents, so each row has a checksum, and the sum of
// all checksums is part of each transaction: a file whose pages are of different age is damaged.
//
// All methods block while the disk does not respond. Only Sync may run at the same time as other
// methods, on another thread.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/saved/object_store.h"

namespace svcmap::proxy {

// An accepted or removed object.
struct SavedChange {
  Kind kind = Kind::kService;
  std::string key;
  std::optional<std::string> message;  // Absent if the object was removed.
  uint64_t first_seen = 0;
};

class ObjectFile {
 public:
  // Opens the file, or creates it if it does not exist or is empty, and reads it into `found`.
  // Returns kDataLoss if the file is damaged or untrusted, and kUnimplemented if the file has
  // another format version. `found` is complete or empty.
  static absl::StatusOr<std::shared_ptr<ObjectFile>> Open(const std::string& path,
                                                          const std::string& vfs,
                                                          const std::string& writer,
                                                          SavedObjects* found);
  // Reads a file on a read-only file system.
  static absl::Status ReadOnly(const std::string& path, SavedObjects* found);

  // Writes the changes as one transaction. After an error, the file contains none of them.
  absl::Status Write(const std::vector<SavedChange>& changes, bool partial, uint64_t revision);
  // Returns OK when the leader is on disk.
  absl::Status WriteLeader(const Leader& leader);
  // Waits until all transactions are on disk, and moves them from the log to the database. Returns
  // false if a write at the same time has kept some of them in the log.
  absl::StatusOr<bool> Sync();
  // True if the directory still contains the file and its log.
  bool HasName() const;
  // Creates a copy of the content at `path`, which must not exist. Works for a deleted file.
  absl::Status CopyTo(const std::string& path);
  uint64_t bytes() const;

 private:
  struct CloseConnection {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Connection = std::unique_ptr<sqlite3, CloseConnection>;
  using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

  explicit ObjectFile(std::string path) : path_(std::move(path)) {}

  static absl::StatusOr<Connection> Connect(const std::string& path, const std::string& vfs,
                                            int flags);
  absl::Status Prepare(const std::string& writer);
  absl::Status Load(SavedObjects* found);
  absl::Status LoadObjects(SavedObjects* found);
  absl::StatusOr<Statement> Compile(const char* sql);
  absl::Status Run(const char* sql);
  absl::Status Step(sqlite3_stmt* statement);
  absl::Status WriteChange(const SavedChange& change);
  absl::Status WriteState();
  // The caller must hold checkpoint_mutex_.
  absl::StatusOr<bool> Checkpoint(sqlite3* db);
  absl::Status Error(sqlite3* db, const char* call) const;

  const std::string path_;
  // Used by Sync only, so that Sync does not block Write. Closed last, because the last connection
  // syncs the file.
  Connection sync_db_;
  Connection db_;
  Statement begin_, commit_, rollback_, find_, put_, remove_, state_;
  // Content of the table with one row.
  bool partial_ = false;
  uint64_t revision_ = 0;
  Leader leader_;
  uint64_t digest_ = 0;                // Sum of the checksums of all objects.
  std::mutex checkpoint_mutex_;        // Only one connection can move pages at a time.
  std::atomic<int> log_pages_ = 0;     // Pages in the log after the last write.
  std::atomic<int> synced_pages_ = 0;  // Of these, pages that the last Sync moved to the database.
};

}  // namespace svcmap::proxy
