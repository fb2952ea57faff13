#include "proxy/saved/object_file.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "nft/base/status.h"
#include "proxy/saved/folder.h"

namespace svcmap::proxy {
namespace {

constexpr int kFormatVersion = 1;
constexpr uint64_t kSmallestSize = 512;  // The smallest page size of SQLite.
// Waiting time for another process that holds the lock of the database, such as sqlite3.
constexpr int kBusyMilliseconds = 1000;
// The log starts again at its beginning when all of it is in the database. With changes in quick
// succession this never happens. Therefore, a sync of a log above 32 MiB first moves most pages,
// and then delays writes until the rest is moved.
constexpr int kLongLog = 8 << 10;

constexpr char kSettings[] =
    "PRAGMA auto_vacuum=FULL;"  // The file becomes smaller after removals.
    "PRAGMA journal_mode=WAL;"
    // Only Sync and WriteLeader wait for the disk. With NORMAL, the first write after each Sync
    // would wait as well, until the header of the log is on disk. Without this wait, a loss of
    // power in the following second can leave an old header and old pages in front of new pages.
    // The header and the start of the first page are in one sector, so this is unlikely, and it is
    // detected.
    "PRAGMA synchronous=OFF;"
    "PRAGMA wal_autocheckpoint=0;"
    "PRAGMA journal_size_limit=4194304;"
    "PRAGMA cell_size_check=ON;"
    "PRAGMA trusted_schema=OFF;";
// The check reads pages in any order, so it needs a larger cache.
constexpr char kLargeCache[] = "PRAGMA cache_size=-32000";
constexpr char kSmallCache[] = "PRAGMA cache_size=-1000; PRAGMA shrink_memory;";
// Begins a transaction, so that an interrupted run leaves no table without its row.
constexpr char kSchema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE objects(kind TEXT NOT NULL, key TEXT NOT NULL, message BLOB NOT NULL,"
    " first_seen INTEGER NOT NULL, checksum INTEGER NOT NULL, UNIQUE(kind, key));"
    "CREATE TABLE state(id INTEGER PRIMARY KEY, writer TEXT NOT NULL, revision INTEGER NOT NULL,"
    " partial INTEGER NOT NULL, digest INTEGER NOT NULL, leader_epoch INTEGER NOT NULL,"
    " leader_name TEXT NOT NULL, leader_instance TEXT NOT NULL, checksum INTEGER NOT NULL);"
    "PRAGMA user_version=1;";

void AddNumber(uint64_t number, std::string& to) {
  to.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
void AddText(std::string_view text, std::string& to) {
  AddNumber(text.size(), to);
  to += text;
}

uint64_t ChecksumOf(std::string_view kind, std::string_view key, std::string_view message,
                    uint64_t first_seen) {
  std::string names;
  AddText(kind, names);
  AddText(key, names);
  AddNumber(first_seen, names);
  return XXH3_64bits_withSeed(message.data(), message.size(),
                              XXH3_64bits(names.data(), names.size()));
}

uint64_t ChecksumOf(uint64_t revision, bool partial, uint64_t digest, const Leader& leader) {
  std::string content;
  for (const uint64_t number : {revision, uint64_t{partial}, digest, leader.epoch}) {
    AddNumber(number, content);
  }
  AddText(leader.name, content);
  AddText(leader.instance, content);
  return XXH3_64bits(content.data(), content.size());
}

std::optional<Kind> KindOf(std::string_view name) {
  for (const Kind kind : {Kind::kService, Kind::kEndpointSlice, Kind::kNode, Kind::kServiceCidr}) {
    if (KindName(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string_view ColumnBytes(sqlite3_stmt* row, int column) {
  const void* bytes = sqlite3_column_blob(row, column);
  return {static_cast<const char*>(bytes),
          bytes == nullptr ? 0 : static_cast<size_t>(sqlite3_column_bytes(row, column))};
}
uint64_t ColumnNumber(sqlite3_stmt* row, int column) {
  return static_cast<uint64_t>(sqlite3_column_int64(row, column));
}

// Returns the size of the file, or 0 if the file does not exist.
uint64_t SizeOf(const std::string& path) {
  struct stat found = {};
  return ::lstat(path.c_str(), &found) == 0 ? static_cast<uint64_t>(found.st_size) : 0;
}

}  // namespace

absl::Status ObjectFile::Connect(const std::string& vfs, Connection* to) {
  // SQLITE_OPEN_NOFOLLOW also applies to the folder, which may be a symbolic link.
  const size_t slash = path_.rfind('/');
  const std::unique_ptr<char, void (*)(void*)> folder(
      ::realpath(path_.substr(0, slash).c_str(), nullptr), std::free);
  if (folder == nullptr) return ErrnoStatus(errno, "open " + path_);
  sqlite3* db = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
  const int result = sqlite3_open_v2((folder.get() + path_.substr(slash)).c_str(), &db,
                                     kFlags | SQLITE_OPEN_EXRESCODE, vfs.c_str());
  to->reset(db);
  if (result != SQLITE_OK) return Error(db, "open");
  sqlite3_busy_timeout(db, kBusyMilliseconds);
  // SQLite opens a file that it cannot write for reading only.
  if (sqlite3_db_readonly(db, "main") == 0) return absl::OkStatus();
  return absl::UnavailableError("open " + path_ + ": the file is not writable");
}

// Returns a status such as "write /var/lib/svcmap/objects.db: database or disk is full (ENOSPC)".
absl::Status ObjectFile::Error(sqlite3* db, const char* call) const {
  if (db == nullptr) return absl::ResourceExhaustedError("open " + path_ + ": out of memory");
  const int code = sqlite3_extended_errcode(db);
  std::string message = std::string(call) + " " + path_ + ": " + sqlite3_errmsg(db);
  const int error = sqlite3_system_errno(db);
  const char* name = error == 0 ? nullptr : strerrorname_np(error);
  message += name != nullptr ? " (" + std::string(name) + ")"
                             : " (SQLite error " + std::to_string(code) + ")";
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // A table or column is missing.
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_READONLY:  // The header has another format. Open has checked the permissions.
      return absl::DataLossError(message);
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status ObjectFile::Damaged(const std::string& reason) const {
  return absl::DataLossError(path_ + " is damaged: " + reason);
}

absl::StatusOr<std::unique_ptr<ObjectFile>> ObjectFile::Open(const std::string& path,
                                                             const std::string& vfs,
                                                             const std::string& writer,
                                                             SavedObjects* found) {
  *found = {};
  for (const std::string_view suffix : kDatabaseSuffixes) {
    const absl::Status trusted = CheckTrusted(path + std::string(suffix));
    if (!trusted.ok() && !absl::IsNotFound(trusted)) return trusted;
  }
  std::unique_ptr<ObjectFile> file(new ObjectFile(path, writer));
  absl::Status status;
  if (absl::IsNotFound(CheckTrusted(path))) {
    status = RemoveDatabase(path);  // Logs without a database belong to a deleted database.
    if (status.ok()) status = CreateFile(path);
  } else if (const uint64_t size = SizeOf(path); size > 0 && size < kSmallestSize) {
    // SQLite would use the file as an empty file.
    status = file->Damaged("truncated to " + std::to_string(size) + " bytes");
  }
  if (status.ok()) status = file->Connect(vfs, &file->db_);
  if (status.ok()) status = file->Connect(vfs, &file->sync_db_);
  if (status.ok()) status = file->Prepare();
  if (status.ok()) status = file->Load(found);
  if (status.ok()) return file;
  *found = {};
  return status;
}

absl::Status ObjectFile::Execute(const char* sql) {
  return sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK
             ? absl::OkStatus()
             : Error(db_.get(), "write");
}

// Executes one statement with these parameters, and calls `row` with each row of the result.
absl::Status ObjectFile::Run(const char* sql, const std::vector<Value>& parameters,
                             const RowFn& row) {
  Statement& owner = statements_[sql];
  sqlite3_stmt* statement = owner.get();
  if (statement == nullptr) {
    const int result =
        sqlite3_prepare_v3(db_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (result != SQLITE_OK) return Error(db_.get(), "read");
    owner.reset(statement);
  }
  int at = 0;
  for (const Value& value : parameters) {
    ++at;
    if (const auto* number = std::get_if<uint64_t>(&value)) {
      sqlite3_bind_int64(statement, at, static_cast<sqlite3_int64>(*number));
    } else if (const auto* text = std::get_if<std::string_view>(&value)) {
      sqlite3_bind_text64(statement, at, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
    } else {
      const std::string& bytes = *std::get<const std::string*>(value);
      sqlite3_bind_blob64(statement, at, bytes.data(), bytes.size(), SQLITE_STATIC);
    }
  }
  absl::Status status;
  int result = SQLITE_ROW;
  while (status.ok() && (result = sqlite3_step(statement)) == SQLITE_ROW) status = row(statement);
  if (status.ok() && result != SQLITE_DONE) status = Error(db_.get(), "access");
  sqlite3_reset(statement);
  return status;
}

absl::Status ObjectFile::Prepare() {
  if (absl::Status status = Execute(kSettings); !status.ok()) return status;
  if (sqlite3_exec(sync_db_.get(), "PRAGMA synchronous=NORMAL", nullptr, nullptr, nullptr) !=
      SQLITE_OK) {
    return Error(sync_db_.get(), "open");
  }
  int version = 0;
  bool empty = false;
  absl::Status status =
      Run("SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version", {},
          [&](sqlite3_stmt* row) {
            version = sqlite3_column_int(row, 0);
            empty = version == 0 && sqlite3_column_int(row, 1) == 0;
            return absl::OkStatus();
          });
  if (status.ok() && !empty && version != kFormatVersion) {
    status = absl::DataLossError(path_ + " has format version " + std::to_string(version) +
                                 ", expected " + std::to_string(kFormatVersion));
  }
  if (!status.ok() || !empty) return status;
  status = Execute(kSchema);
  if (status.ok()) status = WriteState({});
  return status.ok() ? Execute("COMMIT") : status;
}

absl::Status ObjectFile::Load(SavedObjects* found) {
  absl::Status status = Execute(kLargeCache);
  if (status.ok()) {
    status = Run("PRAGMA integrity_check(1)", {}, [this](sqlite3_stmt* row) {
      const std::string_view result = ColumnBytes(row, 0);
      return result == "ok" ? absl::OkStatus() : Damaged(std::string(result));
    });
  }
  if (!status.ok()) return status;
  int rows = 0;
  status =
      Run("SELECT revision, partial, digest, leader_epoch, leader_name, leader_instance, checksum"
          " FROM state",
          {}, [&](sqlite3_stmt* row) {
            ++rows;
            found->revision = ColumnNumber(row, 0);
            found->partial = ColumnNumber(row, 1) != 0;
            digest_ = ColumnNumber(row, 2);
            found->leader = {ColumnNumber(row, 3), std::string(ColumnBytes(row, 4)),
                             std::string(ColumnBytes(row, 5))};
            const bool intact = ColumnNumber(row, 6) ==
                                ChecksumOf(found->revision, found->partial, digest_, found->leader);
            return intact ? absl::OkStatus() : Damaged("wrong checksum of the table state");
          });
  if (!status.ok()) return status;
  if (rows != 1) return Damaged("the table state does not have one row");
  leader_ = found->leader;
  uint64_t digest = 0;
  status = Run("SELECT kind, key, message, first_seen, checksum FROM objects NOT INDEXED", {},
               [&](sqlite3_stmt* row) {
                 const std::string_view name = ColumnBytes(row, 0);
                 const std::optional<Kind> kind = KindOf(name);
                 SavedObject object{kind.value_or(Kind::kService), std::string(ColumnBytes(row, 1)),
                                    std::string(ColumnBytes(row, 2)), ColumnNumber(row, 3)};
                 const uint64_t checksum =
                     ChecksumOf(name, object.key, object.message, object.first_seen);
                 if (!kind || checksum != ColumnNumber(row, 4)) {
                   return Damaged("wrong checksum of an object");
                 }
                 digest += checksum;
                 found->objects.push_back(std::move(object));
                 return absl::OkStatus();
               });
  if (!status.ok()) return status;
  return digest == digest_ ? Execute(kSmallCache) : Damaged("wrong checksum of all objects");
}

absl::Status ObjectFile::Write(const SavedBatch& batch) {
  const bool durable = batch.leader != leader_;
  absl::Status status;
  if (durable) status = Execute("PRAGMA synchronous=FULL");
  if (status.ok()) status = Execute("BEGIN IMMEDIATE");
  for (const SavedChange& change : batch.changes) {
    if (status.ok()) status = WriteChange(change);
  }
  if (status.ok()) status = WriteState(batch);
  if (status.ok()) status = Execute("COMMIT");
  if (status.ok() && durable) status = Execute("PRAGMA synchronous=OFF");
  leader_ = batch.leader;
  return status;
}

absl::Status ObjectFile::WriteChange(const SavedChange& change) {
  const std::string_view kind = KindName(change.kind);
  const std::string_view key = change.key;
  absl::Status status = Run("SELECT checksum FROM objects WHERE kind=?1 AND key=?2", {kind, key},
                            [this](sqlite3_stmt* row) {
                              digest_ -= ColumnNumber(row, 0);
                              return absl::OkStatus();
                            });
  if (!status.ok()) return status;
  if (!change.message) return Run("DELETE FROM objects WHERE kind=?1 AND key=?2", {kind, key});
  const uint64_t checksum = ChecksumOf(kind, key, *change.message, change.first_seen);
  digest_ += checksum;
  return Run(
      "INSERT INTO objects VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(kind, key) DO UPDATE SET"
      " message=?3, first_seen=?4, checksum=?5",
      {kind, key, &*change.message, change.first_seen, checksum});
}

absl::Status ObjectFile::WriteState(const SavedBatch& batch) {
  const Leader& leader = batch.leader;
  return Run("REPLACE INTO state VALUES(1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
             {writer_, batch.revision, uint64_t{batch.partial}, digest_, leader.epoch, leader.name,
              leader.instance, ChecksumOf(batch.revision, batch.partial, digest_, leader)});
}

absl::StatusOr<bool> ObjectFile::Sync() {
  int moved = 0;
  sqlite3_file_control(sync_db_.get(), nullptr, SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved != 0 || absl::IsNotFound(CheckTrusted(path_ + "-wal"))) {
    return absl::NotFoundError("sync " + path_ + ": the file was deleted or replaced");
  }
  int pages = 0;
  moved = 0;
  int result =
      sqlite3_wal_checkpoint_v2(sync_db_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
  if (result == SQLITE_OK && pages > kLongLog) {
    result = sqlite3_wal_checkpoint_v2(sync_db_.get(), nullptr, SQLITE_CHECKPOINT_RESTART, &pages,
                                       &moved);
  }
  if ((result & 0xff) == SQLITE_BUSY) return false;  // A write has used the log at this moment.
  if (result != SQLITE_OK) return Error(sync_db_.get(), "sync");
  return moved == pages;
}

uint64_t ObjectFile::bytes() const { return SizeOf(path_) + SizeOf(path_ + "-wal"); }

}  // namespace svcmap::proxy
