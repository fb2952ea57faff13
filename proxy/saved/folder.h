// The folder of the saved state: its lock, and the rules for files that other users may have
// created. All functions block while the disk does not respond.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::proxy {

// Creates the folder and its parents if they are missing.
absl::Status MakeFolder(const std::string& path);

// Returns why users other than root and this process's user can change the folder's content: the
// owner or the mode. Returns an empty string if they cannot, or if the folder cannot be examined.
std::string ChangeableByOthers(const std::string& folder);

// Locks FOLDER/lock until the descriptor is closed. Returns kFailedPrecondition if another process
// holds the lock. Deletes a lock file that another user created, perhaps to block svcmapd.
absl::StatusOr<UniqueFd> LockFolder(const std::string& folder);

// Returns kNotFound if the file does not exist, and kDataLoss if a user other than root and this
// process's user may have created the file.
absl::Status CheckTrusted(const std::string& path);

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder);
absl::Status Rename(const std::string& from, const std::string& to);
// Returns OK if the file does not exist.
absl::Status Unlink(const std::string& path);
// Creates an empty file that only this process's user can read. The file must not exist.
absl::Status CreateFile(const std::string& path);
// Waits until the content of a file, or the names of the files in a folder, are on disk.
absl::Status SyncPath(const std::string& path);

}  // namespace svcmap::proxy
