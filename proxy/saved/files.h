// Interface for the file operations of proxy/saved, so that tests can inject failures. ErrnoStatus
// creates all errors. Errors from a File do not contain the file name, because the file may have
// been renamed. Thread-safe. Several threads may use one File at the same time, except for Append,
// which needs external synchronization.
#pragma once

#include <cstdint>
#include <functional>
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
  virtual ~File() = default;  // Closes the file.

  // Returns fewer bytes than requested only at the end of the file.
  virtual absl::StatusOr<size_t> Read(uint64_t offset, std::span<char> into) = 0;
  // Appends all of `bytes`. After an error, a part of `bytes` may have been appended.
  virtual absl::Status Append(std::string_view bytes) = 0;
  virtual absl::Status Sync() = 0;  // Waits until the content is on disk.
  virtual absl::StatusOr<uint64_t> Size() = 0;
  virtual absl::Status Truncate(uint64_t size) = 0;
  // Returns false if the file was deleted. Data written to a deleted file would be lost.
  virtual absl::StatusOr<bool> HasName() = 0;
  // Locks the file until it is closed. Returns kUnavailable if another process holds the lock.
  virtual absl::Status Lock() = 0;
};

enum class OpenMode : uint8_t {
  kUpdate,  // Existing file, for reading and appending.
  kRead,    // Existing file, for reading only.
  kCreate,  // New file, which replaces an existing file with the same name.
  kLock,    // Existing or new file. The content is not used.
};

// Returns true for the errors ENOSPC and EDQUOT of a File or of Files.
bool IsNoSpace(const absl::Status& status);

class Files {
 public:
  virtual ~Files() = default;

  // Open never blocks on a FIFO. Returns kDataLoss if another user may have created the file.
  // kDataLoss applies to links, to files that are not regular, and to files that another user owns
  // or can write.
  virtual absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Creates the folder and its parents. MakeFolder succeeds if the folder already exists.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Returns kPermissionDenied if users other than root and this process's user can change the
  // folder's content. The error message contains the folder's owner or mode.
  virtual absl::Status CheckFolder(const std::string& path) = 0;
  // Waits until the folder's entries are on disk.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
};

// `report` is called with the path and the reason each time PosixFiles() replaces or deletes a file
// that another user may have created. `report` must be thread-safe.
void ReportReplacedFiles(std::function<void(const std::string& reason)> report);

// Implementation that uses the operating system.
Files& PosixFiles();

}  // namespace svcmap::proxy
