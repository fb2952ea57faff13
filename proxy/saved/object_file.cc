#include "proxy/saved/object_file.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_replace.h"
#include "nft/base/status.h"
#include "proxy/saved/folder.h"

namespace svcmap::proxy {
namespace {

constexpr int kFormatVersion = 1;
constexpr uint64_t kSmallestSize = 512;  // The smallest page size of SQLite.
// Waiting time for another process that holds the lock of the database, such as sqlite3.
constexpr int kBusyMilliseconds = 1000;
// The log starts again at its beginning when all of it is in the database. With changes in quick
// succession this never happens. Therefore, a write also moves the rest of the log: a short rest
// above 32 MiB, and any rest above 128 MiB.
constexpr int kLongLog = 8 << 10;
constexpr int kShortRest = 1 << 10;
constexpr int kMaxLogPages = 32 << 10;

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

void BindText(sqlite3_stmt* statement, int at, std::string_view text) {
  sqlite3_bind_text64(statement, at, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}
void BindNumber(sqlite3_stmt* statement, int at, uint64_t number) {
  sqlite3_bind_int64(statement, at, static_cast<sqlite3_int64>(number));
}
std::string_view ColumnBytes(sqlite3_stmt* row, int column) {
  const void* bytes = sqlite3_column_blob(row, column);
  return {static_cast<const char*>(bytes),
          bytes == nullptr ? 0 : static_cast<size_t>(sqlite3_column_bytes(row, column))};
}
uint64_t ColumnNumber(sqlite3_stmt* row, int column) {
  return static_cast<uint64_t>(sqlite3_column_int64(row, column));
}

// Returns the size of the file, or nullopt if the file does not exist.
std::optional<uint64_t> SizeOf(const std::string& path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return std::nullopt;
  return static_cast<uint64_t>(found.st_size);
}

}  // namespace

absl::StatusOr<ObjectFile::Connection> ObjectFile::Connect(const std::string& path,
                                                           const std::string& vfs, int flags) {
  // SQLITE_OPEN_NOFOLLOW also applies to the folder, which may be a symbolic link.
  const size_t slash = path.rfind('/');
  const std::unique_ptr<char, void (*)(void*)> folder(
      ::realpath(path.substr(0, slash).c_str(), nullptr), std::free);
  if (folder == nullptr) return ErrnoStatus(errno, "open " + path);
  std::string resolved = folder.get() + path.substr(slash);
  if ((flags & SQLITE_OPEN_URI) != 0) {
    resolved = "file:" + absl::StrReplaceAll(resolved, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}}) +
               "?immutable=1";
  }
  sqlite3* db = nullptr;
  const int result = sqlite3_open_v2(
      resolved.c_str(), &db,
      flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE, vfs.c_str());
  Connection connection(db);
  if (result != SQLITE_OK) return ObjectFile(path).Error(db, "open");
  sqlite3_busy_timeout(db, kBusyMilliseconds);
  return connection;
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

absl::StatusOr<std::shared_ptr<ObjectFile>> ObjectFile::Open(const std::string& path,
                                                             const std::string& vfs,
                                                             const std::string& writer,
                                                             SavedObjects* found) {
  *found = {};
  for (const char* suffix : {"", "-wal", "-journal"}) {
    const absl::Status trusted = CheckTrusted(path + suffix);
    if (!trusted.ok() && !absl::IsNotFound(trusted)) return trusted;
  }
  const std::optional<uint64_t> size = SizeOf(path);
  if (size && *size > 0 && *size < kSmallestSize) {  // SQLite would use it as an empty file.
    return absl::DataLossError(path + " is damaged: truncated to " + std::to_string(*size) +
                               " bytes");
  }
  if (!size) {
    for (const char* suffix : {"-wal", "-journal"}) {
      if (absl::Status removed = Unlink(path + suffix); !removed.ok()) return removed;
    }
    if (absl::Status made = CreateFile(path); !made.ok()) return made;
  }
  std::shared_ptr<ObjectFile> file(new ObjectFile(path));
  for (Connection* connection : {&file->db_, &file->sync_db_}) {
    absl::StatusOr<Connection> opened = Connect(path, vfs, SQLITE_OPEN_READWRITE);
    if (!opened.ok()) return opened.status();
    // SQLite opens a file that it cannot write for reading only.
    if (sqlite3_db_readonly(opened->get(), "main") != 0) {
      return absl::UnavailableError("open " + path + ": the file is not writable");
    }
    *connection = *std::move(opened);
  }
  absl::Status status = file->Prepare(writer);
  if (status.ok()) status = file->Load(found);
  if (!status.ok()) {
    *found = {};
    return status;
  }
  return file;
}

// SQLite reads a database with a log on a read-only disk only without locks and shared memory, and
// a database without a log only if it is declared to be immutable. The lock of the folder makes
// both safe.
absl::Status ObjectFile::ReadOnly(const std::string& path, SavedObjects* found) {
  *found = {};
  const bool log = SizeOf(path + "-wal").value_or(0) > 0;
  for (const std::string& file : {path, log ? path + "-wal" : path}) {
    if (absl::Status trusted = CheckTrusted(file); !trusted.ok()) return trusted;
  }
  absl::StatusOr<Connection> opened =
      Connect(path, "unix-none", SQLITE_OPEN_READONLY | (log ? 0 : SQLITE_OPEN_URI));
  if (!opened.ok()) return opened.status();
  ObjectFile file(path);
  file.db_ = *std::move(opened);
  absl::Status status = file.Run("PRAGMA locking_mode=EXCLUSIVE");
  if (status.ok()) status = file.Load(found);
  if (!status.ok()) *found = {};
  return status;
}

absl::StatusOr<ObjectFile::Statement> ObjectFile::Compile(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(db_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
      SQLITE_OK) {
    return Error(db_.get(), "read");
  }
  return Statement(statement);
}

absl::Status ObjectFile::Run(const char* sql) {
  return sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK
             ? absl::OkStatus()
             : Error(db_.get(), "write");
}

absl::Status ObjectFile::Step(sqlite3_stmt* statement) {
  const int result = sqlite3_step(statement);
  absl::Status status;
  if (result != SQLITE_DONE && result != SQLITE_ROW) status = Error(db_.get(), "write");
  sqlite3_reset(statement);
  return status;
}

absl::Status ObjectFile::Prepare(const std::string& writer) {
  if (absl::Status status = Run(kSettings); !status.ok()) return status;
  if (sqlite3_exec(sync_db_.get(), "PRAGMA synchronous=NORMAL", nullptr, nullptr, nullptr) !=
      SQLITE_OK) {
    return Error(sync_db_.get(), "open");
  }
  int version = 0;
  bool empty = false;
  {
    absl::StatusOr<Statement> read = Compile(
        "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version");
    if (!read.ok()) return read.status();
    if (sqlite3_step(read->get()) != SQLITE_ROW) return Error(db_.get(), "read");
    version = sqlite3_column_int(read->get(), 0);
    empty = version == 0 && sqlite3_column_int(read->get(), 1) == 0;
  }
  if (!empty && version != kFormatVersion) {
    return absl::UnimplementedError(path_ + " has format version " + std::to_string(version) +
                                    ", expected " + std::to_string(kFormatVersion));
  }
  if (empty) {
    if (absl::Status status = Run(kSchema); !status.ok()) return status;
  }
  for (const auto& [statement, sql] : std::initializer_list<std::pair<Statement*, const char*>>{
           {&begin_, "BEGIN IMMEDIATE"},
           {&commit_, "COMMIT"},
           {&rollback_, "ROLLBACK"},
           {&find_, "SELECT checksum FROM objects WHERE kind=?1 AND key=?2"},
           {&put_,
            "INSERT INTO objects VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(kind, key) DO UPDATE SET"
            " message=?3, first_seen=?4, checksum=?5"},
           {&remove_, "DELETE FROM objects WHERE kind=?1 AND key=?2"},
           {&state_, "REPLACE INTO state VALUES(1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"}}) {
    absl::StatusOr<Statement> compiled = Compile(sql);
    if (!compiled.ok()) return compiled.status();
    *statement = *std::move(compiled);
  }
  sqlite3_bind_text(state_.get(), 1, writer.c_str(), -1, SQLITE_TRANSIENT);
  sqlite3_wal_hook(
      db_.get(),
      [](void* file, sqlite3*, const char*, int pages) {
        static_cast<ObjectFile*>(file)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
  if (!empty) return absl::OkStatus();
  absl::Status status = WriteState();
  return status.ok() ? Step(commit_.get()) : status;
}

absl::Status ObjectFile::Load(SavedObjects* found) {
  const auto damaged = [this](const std::string& reason) {
    return absl::DataLossError(path_ + " is damaged: " + reason);
  };
  if (absl::Status status = Run(kLargeCache); !status.ok()) return status;
  {
    absl::StatusOr<Statement> check = Compile("PRAGMA integrity_check(1)");
    if (!check.ok()) return check.status();
    if (sqlite3_step(check->get()) != SQLITE_ROW) return Error(db_.get(), "read");
    if (const std::string_view result = ColumnBytes(check->get(), 0); result != "ok") {
      return damaged(std::string(result));
    }
  }
  absl::StatusOr<Statement> state = Compile(
      "SELECT revision, partial, digest, leader_epoch, leader_name, leader_instance, checksum"
      " FROM state");
  if (!state.ok()) return state.status();
  switch (sqlite3_step(state->get())) {
    case SQLITE_ROW:
      break;
    case SQLITE_DONE:
      return damaged("the table state is empty, expected one row");
    default:
      return Error(db_.get(), "read");
  }
  revision_ = ColumnNumber(state->get(), 0);
  partial_ = ColumnNumber(state->get(), 1) != 0;
  digest_ = ColumnNumber(state->get(), 2);
  leader_ = {ColumnNumber(state->get(), 3), std::string(ColumnBytes(state->get(), 4)),
             std::string(ColumnBytes(state->get(), 5))};
  if (ColumnNumber(state->get(), 6) != ChecksumOf(revision_, partial_, digest_, leader_)) {
    return damaged("wrong checksum of the table state");
  }
  found->partial = partial_;
  found->revision = revision_;
  found->leader = leader_;
  absl::Status status = LoadObjects(found);
  return status.ok() ? Run(kSmallCache) : status;
}

absl::Status ObjectFile::LoadObjects(SavedObjects* found) {
  absl::StatusOr<Statement> rows =
      Compile("SELECT kind, key, message, first_seen, checksum FROM objects NOT INDEXED");
  if (!rows.ok()) return rows.status();
  uint64_t digest = 0;
  int result = SQLITE_OK;
  while ((result = sqlite3_step(rows->get())) == SQLITE_ROW) {
    const std::string_view name = ColumnBytes(rows->get(), 0);
    const std::optional<Kind> kind = KindOf(name);
    SavedObject object{kind.value_or(Kind::kService), std::string(ColumnBytes(rows->get(), 1)),
                       std::string(ColumnBytes(rows->get(), 2)), ColumnNumber(rows->get(), 3)};
    const uint64_t checksum = ChecksumOf(name, object.key, object.message, object.first_seen);
    if (!kind || checksum != ColumnNumber(rows->get(), 4)) {
      return absl::DataLossError(path_ + " is damaged: wrong checksum of an object");
    }
    digest += checksum;
    found->objects.push_back(std::move(object));
  }
  if (result != SQLITE_DONE) return Error(db_.get(), "read");
  if (digest == digest_) return absl::OkStatus();
  return absl::DataLossError(path_ + " is damaged: wrong checksum of all objects");
}

absl::Status ObjectFile::Write(const std::vector<SavedChange>& changes, bool partial,
                               uint64_t revision) {
  const uint64_t digest = digest_;
  absl::Status status = Step(begin_.get());
  for (size_t i = 0; status.ok() && i < changes.size(); ++i) status = WriteChange(changes[i]);
  partial_ = partial;
  revision_ = revision;
  if (status.ok()) status = WriteState();
  if (status.ok()) status = Step(commit_.get());
  if (!status.ok()) {
    digest_ = digest;
    Step(rollback_.get()).IgnoreError();  // SQLite has already rolled back after some errors.
    return status;
  }
  std::unique_lock checkpoint(checkpoint_mutex_, std::defer_lock);
  if (log_pages_ > kMaxLogPages) {
    checkpoint.lock();
  } else if (log_pages_ <= kLongLog || log_pages_ - synced_pages_ >= kShortRest ||
             !checkpoint.try_lock()) {
    return status;
  }
  status = Run("PRAGMA synchronous=NORMAL");
  if (status.ok()) status = Checkpoint(db_.get()).status();
  const absl::Status restored = Run("PRAGMA synchronous=OFF");
  return status.ok() ? restored : status;
}

absl::Status ObjectFile::WriteChange(const SavedChange& change) {
  const std::string_view kind = KindName(change.kind);
  for (sqlite3_stmt* statement : {find_.get(), put_.get(), remove_.get()}) {
    BindText(statement, 1, kind);
    BindText(statement, 2, change.key);
  }
  const int found = sqlite3_step(find_.get());
  if (found == SQLITE_ROW) digest_ -= ColumnNumber(find_.get(), 0);
  absl::Status status;
  if (found != SQLITE_ROW && found != SQLITE_DONE) status = Error(db_.get(), "read");
  sqlite3_reset(find_.get());
  if (!status.ok()) return status;
  if (!change.message) return Step(remove_.get());
  const uint64_t checksum = ChecksumOf(kind, change.key, *change.message, change.first_seen);
  digest_ += checksum;
  sqlite3_bind_blob64(put_.get(), 3, change.message->data(), change.message->size(), SQLITE_STATIC);
  BindNumber(put_.get(), 4, change.first_seen);
  BindNumber(put_.get(), 5, checksum);
  return Step(put_.get());
}

absl::Status ObjectFile::WriteState() {
  int at = 2;  // The first parameter is the writer.
  for (const uint64_t number : {revision_, uint64_t{partial_}, digest_, leader_.epoch}) {
    BindNumber(state_.get(), at++, number);
  }
  BindText(state_.get(), at++, leader_.name);
  BindText(state_.get(), at++, leader_.instance);
  BindNumber(state_.get(), at, ChecksumOf(revision_, partial_, digest_, leader_));
  return Step(state_.get());
}

absl::Status ObjectFile::WriteLeader(const Leader& leader) {
  const Leader previous = std::exchange(leader_, leader);
  absl::Status status = Run("PRAGMA synchronous=FULL");
  if (status.ok()) status = WriteState();
  if (!status.ok()) leader_ = previous;
  const absl::Status restored = Run("PRAGMA synchronous=OFF");
  return status.ok() ? restored : status;
}

absl::StatusOr<bool> ObjectFile::Sync() {
  const std::lock_guard lock(checkpoint_mutex_);
  return Checkpoint(sync_db_.get());
}

absl::StatusOr<bool> ObjectFile::Checkpoint(sqlite3* db) {
  int pages = 0;
  int moved = 0;
  const int result =
      sqlite3_wal_checkpoint_v2(db, nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
  // SQLite could not read the header of the log because Write changed it at this moment.
  if ((result & 0xff) == SQLITE_BUSY) return false;
  if (result != SQLITE_OK) return Error(db, "sync");
  synced_pages_ = moved;
  return moved == pages;
}

bool ObjectFile::HasName() const {
  int moved = 0;
  sqlite3_file_control(sync_db_.get(), nullptr, SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved == 0 && SizeOf(path_ + "-wal").has_value();
}

absl::Status ObjectFile::CopyTo(const std::string& path) {
  if (absl::Status made = CreateFile(path); !made.ok()) return made;
  absl::StatusOr<Statement> copy = Compile("VACUUM INTO ?1");
  if (!copy.ok()) return copy.status();
  BindText(copy->get(), 1, path);
  return Step(copy->get());
}

uint64_t ObjectFile::bytes() const {
  uint64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    bytes += SizeOf(path_ + suffix).value_or(0);
  }
  return bytes;
}

}  // namespace svcmap::proxy
