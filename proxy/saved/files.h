// The file calls of this room, so that tests can let each of them fail. Errors are those of the
// system, as ErrnoStatus makes them; those of a File do not name it, as it may have been renamed.
// Any thread; one File is used by several at a time, but for Append, which is one caller's at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::proxy {

class File {
 public:
  virtual ~File() = default;  // Closes it.

  // Fewer bytes than asked for only at its end.
  virtual absl::StatusOr<size_t> Read(uint64_t offset, std::span<char> into) = 0;
  // Behind its end. All of `bytes`, or an error, and then the first of them may be there.
  virtual absl::Status Append(std::string_view bytes) = 0;
  virtual absl::Status Sync() = 0;  // Waits for the disk.
  virtual absl::StatusOr<uint64_t> Size() = 0;
  virtual absl::Status Truncate(uint64_t size) = 0;
  // False once it has no name any more: nobody will find what is written to it.
  virtual absl::StatusOr<bool> HasName() = 0;
  // Until it is closed; kUnavailable when somebody else has it.
  virtual absl::Status Lock() = 0;
};

enum class OpenMode : uint8_t {
  kUpdate,  // There already: to read and to append.
  kRead,    // There already: to read only.
  kCreate,  // Always a new file. Replaces an existing file of that name.
  kLock,    // Made if it is not there; content does not matter.
};

class Files {
 public:
  virtual ~Files() = default;

  // Never blocks on a FIFO. kDataLoss for an object that another user may have put there: not a
  // regular file, owned or writable by another user, or a link.
  virtual absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // With its parents; one that is there already is no error.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // kPermissionDenied if users other than root and this process's user can change what is in it;
  // the message names the owner or the mode.
  virtual absl::Status CheckFolder(const std::string& path) = 0;
  // Waits until the names in it are on disk.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
};

// The operating system's.
Files& PosixFiles();

}  // namespace svcmap::proxy
