#include "proxy/saved/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "nft/base/status.h"

namespace svcmap::proxy {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

// Returns a status such as "open /var/lib/svcmap/lock: Permission denied (EACCES)".
absl::Status Failed(const std::string& call, const std::string& path) {
  return ErrnoStatus(errno, call + " " + path);
}

// Creates the folder and its parents if they are missing.
absl::Status MakeFolder(const std::string& path) {
  if (::mkdir(path.c_str(), kFolderMode) == 0 || errno == EEXIST) return absl::OkStatus();
  const size_t parent = path.rfind('/');
  if (errno == ENOENT && parent != std::string::npos && parent > 0) {
    const absl::Status made = MakeFolder(path.substr(0, parent));
    if (!made.ok()) return made;
    if (::mkdir(path.c_str(), kFolderMode) == 0) return absl::OkStatus();
  }
  return Failed("create folder", path);
}

}  // namespace

std::string ChangeableByOthers(const std::string& folder) {
  struct stat found = {};
  if (::stat(folder.c_str(), &found) != 0) return "";
  if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
    return "owned by uid " + std::to_string(found.st_uid);
  }
  if ((found.st_mode & kWritableByOthers) == 0) return "";
  char mode[8];
  std::snprintf(mode, sizeof(mode), "%04o", found.st_mode & 07777);
  return std::string("mode ") + mode;
}

absl::StatusOr<UniqueFd> LockFolder(const std::string& folder) {
  if (absl::Status made = MakeFolder(folder); !made.ok()) return made;
  const std::string path = folder + "/lock";
  if (absl::IsDataLoss(CheckTrusted(path))) {
    if (absl::Status removed = RemoveFile(path); !removed.ok()) return removed;
  }
  UniqueFd fd(::open(path.c_str(),
                     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, kFileMode));
  if (!fd.ok()) return Failed("open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return Failed("lock", path);
  return absl::FailedPreconditionError("another agent uses the folder " + folder);
}

absl::Status CheckTrusted(const std::string& path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return Failed("stat", path);
  std::string reason;
  if (S_ISLNK(found.st_mode)) {
    reason = "is a symbolic link";
  } else if (!S_ISREG(found.st_mode)) {
    reason = "is not a regular file";
  } else if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
    reason = "is owned by uid " + std::to_string(found.st_uid) + ", expected uid " +
             std::to_string(::geteuid());
  } else if ((found.st_mode & kWritableByOthers) != 0) {
    reason = "is writable by other users";
  } else if (found.st_nlink > 1) {
    reason = "has more than one hard link";
  }
  return reason.empty() ? absl::OkStatus() : absl::DataLossError(path + " " + reason);
}

absl::Status CreateFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
  return fd.ok() ? absl::OkStatus() : Failed("create", path);
}

absl::Status RemoveFile(const std::string& path) {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : Failed("remove", path);
}

absl::Status RemoveDatabase(const std::string& path) {
  absl::Status status;
  for (const std::string_view suffix : kDatabaseSuffixes) {
    if (status.ok()) status = RemoveFile(path + std::string(suffix));
  }
  return status;
}

absl::Status RenameDatabase(const std::string& from, const std::string& to) {
  for (const std::string_view suffix : kDatabaseSuffixes) {
    const std::string old_path = from + std::string(suffix);
    const std::string new_path = to + std::string(suffix);
    if (::rename(old_path.c_str(), new_path.c_str()) != 0 && errno != ENOENT) {
      return Failed("rename", old_path + " to " + new_path);
    }
  }
  return absl::OkStatus();
}

}  // namespace svcmap::proxy
