// An SQLite database with the saved objects. SQLite's write-ahead log makes each transaction
// atomic. SQLite has no checksums for table contents, so each row has a checksum, and the sum of
// all checksums is part of each transaction: a file whose pages are of different age is damaged.
//
// All methods block while the disk does not respond. Only Sync may run at the same time as other
// methods, on another thread.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
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

// The content of one transaction.
struct SavedBatch {
  std::vector<SavedChange> changes;
  bool partial = false;
  uint64_t revision = 0;
  Leader leader;
};

class ObjectFile {
 public:
  // Opens the file, or creates it if it does not exist or is empty, and reads it into `found`.
  // Returns kDataLoss if the file is damaged or untrusted, or has another format version. `found`
  // is complete or empty.
  static absl::StatusOr<std::unique_ptr<ObjectFile>> Open(const std::string& path,
                                                          const std::string& vfs,
                                                          const std::string& writer,
                                                          SavedObjects* found);

  // Writes one transaction. After an error, the file contains nothing of it, and must be closed. If
  // the leader is new, waits until the transaction is on disk.
  absl::Status Write(const SavedBatch& batch);
  // Waits until all transactions are on disk, and moves them from the log to the database. Returns
  // false if a write at the same time has kept some of them in the log. Returns an error if the
  // folder does not contain the file or its log any more.
  absl::StatusOr<bool> Sync();
  uint64_t bytes() const;

 private:
  template <auto kFunction>
  struct Deleter {
    void operator()(auto* object) const { kFunction(object); }
  };
  using Connection = std::unique_ptr<sqlite3, Deleter<sqlite3_close_v2>>;
  using Statement = std::unique_ptr<sqlite3_stmt, Deleter<sqlite3_finalize>>;

  using Value =
      std::variant<uint64_t, std::string_view, const std::string*>;  // The last is a blob.
  using RowFn = std::function<absl::Status(sqlite3_stmt*)>;

  ObjectFile(std::string path, std::string writer)
      : path_(std::move(path)), writer_(std::move(writer)) {}

  absl::Status Connect(const std::string& vfs, Connection* to);
  absl::Status Prepare();
  absl::Status Load(SavedObjects* found);
  absl::Status Execute(const char* sql);
  absl::Status Run(const char* sql, const std::vector<Value>& parameters, const RowFn& row = {});
  absl::Status WriteChange(const SavedChange& change);
  absl::Status WriteState(const SavedBatch& batch);
  absl::Status Error(sqlite3* db, const char* call) const;
  absl::Status Damaged(const std::string& reason) const;

  const std::string path_;
  const std::string writer_;
  // Used by Sync only, so that Sync does not block Write. Closed last, because the last connection
  // syncs the file.
  Connection sync_db_;
  Connection db_;
  std::map<const char*, Statement> statements_;
  uint64_t digest_ = 0;  // Sum of the checksums of all objects.
  Leader leader_;        // As written last.
};

}  // namespace svcmap::proxy
