// An SQLite database with the saved objects. SQLite's write-ahead log makes each transaction
// atomic. SQLite has no checksums for table contents, so each transaction contains the sum of the
// checksums of all rows. A file with changed rows, or whose pages are of different age, is damaged.
//
// All methods block while the disk does not respond. Only Sync may run at the same time as other
// methods, on another thread.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/saved/object_writer.h"

namespace svcmap::proxy {

class ObjectFile {
 public:
  // Opens the file, or creates it if it does not exist or is empty, and reads it into `found`.
  // Returns kDataLoss if the file is damaged or untrusted, or has another format version. `found`
  // is complete or empty.
  static absl::StatusOr<std::unique_ptr<ObjectFile>> Open(const std::string& path,
                                                          const std::string& vfs,
                                                          SavedObjects* found);

  // Writes one transaction. After an error, the file contains nothing of it, and must be closed. If
  // the leader is new, waits until the transaction is on disk. Returns kResourceExhausted if the
  // disk is full.
  absl::Status Write(const SavedBatch& batch, const Leader& leader);
  // Waits until all transactions are on disk, and moves them from the log to the database. Returns
  // false if a write at the same time has kept some of them in the log. Returns an error if the
  // folder does not contain the file or its log any more.
  absl::StatusOr<bool> Sync();
  uint64_t bytes() const;

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Connection = std::unique_ptr<sqlite3, Close>;
  // Parameters of a statement, or the columns of a row. Numbers are decimal.
  using Values = std::vector<std::string>;
  using RowFn = std::function<void(Values& row)>;

  explicit ObjectFile(std::string path) : path_(std::move(path)) {}

  void Connect(const std::string& vfs, const char* settings, Connection* to);
  void Prepare();
  void Load(SavedObjects* found);
  // Executes statements without parameters.
  void Execute(sqlite3* db, const char* sql);
  // Executes one statement with these parameters, and calls `row` with each row of the result.
  void Run(const char* sql, const Values& parameters = {}, const RowFn& row = {});
  void WriteObject(const SavedObject& object);
  absl::Status Error(sqlite3* db, const char* call) const;
  void Damaged(const std::string& reason);

  const std::string path_;
  // Used by Sync only, so that Sync does not block Write. Closed last, because the last connection
  // syncs the file.
  Connection sync_db_;
  Connection db_;
  std::map<const char*, std::unique_ptr<sqlite3_stmt, Close>> statements_;
  absl::Status status_;  // The first error. The functions above do nothing after an error.
  uint64_t digest_ = 0;  // Sum of the checksums of all objects.
  Leader leader_;        // As written last.
};

}  // namespace svcmap::proxy
