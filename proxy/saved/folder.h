// The folder of the saved state: its lock, and the rules for files that other users may have
// created. All functions block while the disk does not respond.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::proxy {

// A database consists of a file and SQLite's logs, whose names have these suffixes.
constexpr std::string_view kDatabaseSuffixes[] = {"", "-wal", "-journal"};

// Returns why users other than root and this process's user can change the folder's content: the
// owner or the mode. Returns an empty string if they cannot, or if the folder cannot be examined.
std::string ChangeableByOthers(const std::string& folder);

// Creates the folder if it is missing, and locks FOLDER/lock until the descriptor is closed.
// Returns kFailedPrecondition if another process holds the lock. Deletes a lock file that another
// user created, perhaps to block svcmapd.
absl::StatusOr<UniqueFd> LockFolder(const std::string& folder);

// Returns kNotFound if the file does not exist, and kDataLoss if a user other than root and this
// process's user may have created the file.
absl::Status CheckTrusted(const std::string& path);

// The following functions ignore files that do not exist.
absl::Status RemoveFile(const std::string& path);
absl::Status RemoveDatabase(const std::string& path);
// Renames the file of the database and removes its logs.
absl::Status SetAside(const std::string& path, const std::string& to);

}  // namespace svcmap::proxy
