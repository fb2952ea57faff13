#include "proxy/saved/object_file.h"

#include <fcntl.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"
#include "proxy/saved/folder.h"

namespace svcmap::proxy {
namespace {

constexpr char kFormatVersion[] = "2";
constexpr uint64_t kSmallestSize = 512;  // The smallest page size of SQLite.
// Waiting time for another process that holds the lock of the database, such as sqlite3.
constexpr int kBusyMilliseconds = 1000;
// The log starts again at its beginning when all of it is in the database. With changes in quick
// succession this never happens. Therefore, a sync of a log above 32 MiB first moves most pages,
// and then delays writes until the rest is moved.
constexpr int kLongLog = 8 << 10;

constexpr char kWriteSettings[] =
    "PRAGMA auto_vacuum=FULL;"  // The file becomes smaller after removals.
    "PRAGMA journal_mode=WAL;"
    "PRAGMA wal_autocheckpoint=0;"
    "PRAGMA cache_size=-1000;"
    "PRAGMA journal_size_limit=4194304;"
    "PRAGMA cell_size_check=ON;"
    "PRAGMA trusted_schema=OFF;";
constexpr char kSyncSettings[] = "PRAGMA synchronous=NORMAL;";
constexpr char kSchema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE objects(kind TEXT NOT NULL, key TEXT NOT NULL, message BLOB NOT NULL,"
    " first_seen TEXT NOT NULL, UNIQUE(kind, key));"
    "CREATE TABLE state(id INTEGER PRIMARY KEY, digest TEXT NOT NULL, revision TEXT NOT NULL,"
    " partial TEXT NOT NULL, leader_epoch TEXT NOT NULL, leader_name TEXT NOT NULL,"
    " leader_instance TEXT NOT NULL);"
    "PRAGMA user_version=2;"
    "COMMIT;";
// Only Sync and a new leader wait for the disk. With NORMAL, the first write after each Sync would
// wait as well, until the header of the log is on disk. Without this wait, a loss of power in the
// following second can leave an old header and old pages in front of new pages. The header and the
// start of the first page are in one sector, so this is unlikely, and it is detected.
// Executed each time: SQLite sets the level when it prepares the statement.
constexpr char kNoWait[] = "PRAGMA synchronous=OFF";
constexpr char kWait[] = "PRAGMA synchronous=FULL";

constexpr int kDamage[] = {
    SQLITE_CORRUPT,  SQLITE_NOTADB, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_TOOBIG,
    SQLITE_ERROR,     // A table or column is missing.
    SQLITE_READONLY,  // The header has another format, or the file's mode was changed.
};

// Returns 0 if the text is not a number. Then the checksum is wrong as well.
uint64_t NumberIn(const std::string& text) {
  uint64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

std::optional<Kind> KindOf(std::string_view name) {
  for (const Kind kind : {Kind::kService, Kind::kEndpointSlice, Kind::kNode, Kind::kServiceCidr}) {
    if (KindName(kind) == name) return kind;
  }
  return std::nullopt;
}

// Returns the size of the file, or 0 if the file does not exist.
uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

uint64_t ChecksumOf(const std::vector<std::string>& values) {
  uint64_t checksum = 0;
  for (const std::string& value : values) {
    checksum = XXH3_64bits_withSeed(value.data(), value.size(), checksum);
  }
  return checksum;
}

}  // namespace

// Returns a status such as "access /var/lib/svcmap/objects.db: database or disk is full (SQLite
// error 13)".
absl::Status ObjectFile::Error(sqlite3* db, const char* call) const {
  const int code = sqlite3_extended_errcode(db);
  const int error = sqlite3_system_errno(db);
  const std::string message = absl::StrCat(
      call, " ", path_, ": ", sqlite3_errmsg(db), " (",
      error != 0 ? absl::StrCat(strerrorname_np(error)) : absl::StrCat("SQLite error ", code), ")");
  if (absl::c_linear_search(kDamage, code & 0xff)) return absl::DataLossError(message);
  return (code & 0xff) == SQLITE_FULL ? absl::ResourceExhaustedError(message)
                                      : absl::UnavailableError(message);
}

void ObjectFile::Damaged(const std::string& reason) {
  if (status_.ok()) status_ = absl::DataLossError(path_ + " is damaged: " + reason);
}

absl::StatusOr<std::unique_ptr<ObjectFile>> ObjectFile::Open(const std::string& path,
                                                             const std::string& vfs,
                                                             SavedObjects* found) {
  *found = {};
  for (const std::string_view suffix : kDatabaseSuffixes) {
    const absl::Status trusted = CheckTrusted(path + std::string(suffix));
    if (!trusted.ok() && !absl::IsNotFound(trusted)) return trusted;
  }
  // SQLite would create a file that other users can read.
  if (!UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)).ok()) {
    return ErrnoStatus(errno, "open " + path);
  }
  std::unique_ptr<ObjectFile> file(new ObjectFile(path));
  if (const uint64_t size = SizeOf(path); size > 0 && size < kSmallestSize) {
    // SQLite would use the file as an empty file.
    file->Damaged("truncated to " + std::to_string(size) + " bytes");
  }
  file->Connect(vfs, kWriteSettings, &file->db_);
  file->Connect(vfs, kSyncSettings, &file->sync_db_);
  file->Prepare();
  file->Load(found);
  file->Execute(file->db_.get(), kNoWait);
  if (file->status_.ok()) return file;
  *found = {};
  return file->status_;
}

void ObjectFile::Connect(const std::string& vfs, const char* settings, Connection* to) {
  if (!status_.ok()) return;
  sqlite3* db = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int result = sqlite3_open_v2(path_.c_str(), &db, kFlags, vfs.c_str());
  to->reset(db);
  if (result != SQLITE_OK) status_ = Error(db, "open");
  sqlite3_busy_timeout(db, kBusyMilliseconds);
  Execute(db, settings);
}

void ObjectFile::Execute(sqlite3* db, const char* sql) {
  if (!status_.ok()) return;
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) status_ = Error(db, "write");
}

void ObjectFile::Run(const char* sql, const Values& parameters, const RowFn& row) {
  if (!status_.ok()) return;
  auto& statement = statements_[sql];
  if (statement == nullptr) {
    sqlite3_stmt* made = nullptr;
    sqlite3_prepare_v3(db_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr);
    if (made == nullptr) {
      status_ = Error(db_.get(), "read");
      return;
    }
    statement.reset(made);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    sqlite3_bind_text64(statement.get(), static_cast<int>(i + 1), parameters[i].data(),
                        parameters[i].size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  Values columns(static_cast<size_t>(sqlite3_column_count(statement.get())));
  int result = SQLITE_ROW;
  while (status_.ok() && (result = sqlite3_step(statement.get())) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(statement.get()); ++i) {
      const void* bytes = sqlite3_column_blob(statement.get(), i);
      columns[static_cast<size_t>(i)].assign(
          static_cast<const char*>(bytes == nullptr ? "" : bytes),
          static_cast<size_t>(sqlite3_column_bytes(statement.get(), i)));
    }
    row(columns);
  }
  if (status_.ok() && result != SQLITE_DONE) status_ = Error(db_.get(), "access");
  sqlite3_reset(statement.get());
}

// Creates the tables in an empty file.
void ObjectFile::Prepare() {
  Values found = {"", ""};
  Run("SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version", {},
      [&](Values& row) { found = row; });
  if (found == Values{"0", "0"}) return Execute(db_.get(), kSchema);
  if (!status_.ok() || found[0] == kFormatVersion) return;
  status_ = absl::DataLossError(path_ + " has format version " + found[0] + ", expected " +
                                kFormatVersion);
}

void ObjectFile::Load(SavedObjects* found) {
  Run("PRAGMA integrity_check(1)", {}, [&](Values& row) {
    if (row[0] != "ok") Damaged(row[0]);
  });
  Values state = {"0", "0", "0", "", "", ""};  // Of a file without transactions.
  state.back() = std::to_string(ChecksumOf(state));
  Run("SELECT revision, partial, leader_epoch, leader_name, leader_instance, digest FROM state", {},
      [&](Values& row) { state = row; });
  Run("SELECT kind, key, message, first_seen FROM objects NOT INDEXED", {}, [&](Values& row) {
    digest_ += ChecksumOf(row);
    const std::optional<Kind> kind = KindOf(row[0]);
    if (!kind) return Damaged("unknown kind");
    found->objects.push_back({*kind, row[1], row[2], NumberIn(row[3])});
  });
  const std::string digest = std::exchange(state.back(), "");
  if (digest != std::to_string(digest_ + ChecksumOf(state))) Damaged("wrong checksum");
  found->revision = NumberIn(state[0]);
  found->partial = state[1] != "0";
  found->leader = leader_ = {NumberIn(state[2]), state[3], state[4]};
}

absl::Status ObjectFile::Write(const SavedBatch& batch, const Leader& leader) {
  const bool waits = leader_ != leader;
  if (waits) Execute(db_.get(), kWait);
  Run("BEGIN IMMEDIATE");
  leader_ = leader;
  if (batch.everything) {
    digest_ = 0;
    Run("DELETE FROM objects");
  }
  for (const SavedObject& object : batch.objects) WriteObject(object);
  Values state = {std::to_string(batch.revision),
                  batch.partial ? "1" : "0",
                  std::to_string(leader.epoch),
                  leader.name,
                  leader.instance,
                  ""};
  state.back() = std::to_string(digest_ + ChecksumOf(state));
  Run("REPLACE INTO state VALUES(1, ?6, ?1, ?2, ?3, ?4, ?5)", state);
  Run("COMMIT");
  if (waits) Execute(db_.get(), kNoWait);
  return status_;
}

void ObjectFile::WriteObject(const SavedObject& object) {
  Values row = {std::string(KindName(object.kind)), object.key};
  if (object.message) {
    row.push_back(*object.message);
    row.push_back(std::to_string(object.first_seen));
    digest_ += ChecksumOf(row);
    Run("INSERT INTO objects VALUES(?1, ?2, CAST(?3 AS BLOB), ?4) ON CONFLICT DO NOTHING", row);
    if (sqlite3_changes(db_.get()) > 0) return;
  }
  const Values key(row.begin(), row.begin() + 2);
  Run("SELECT kind, key, message, first_seen FROM objects WHERE kind=?1 AND key=?2", key,
      [this](Values& before) { digest_ -= ChecksumOf(before); });
  if (!object.message) return Run("DELETE FROM objects WHERE kind=?1 AND key=?2", key);
  Run("UPDATE objects SET message=CAST(?3 AS BLOB), first_seen=?4 WHERE kind=?1 AND key=?2", row);
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
