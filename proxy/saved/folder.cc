#include "proxy/saved/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "nft/base/status.h"

namespace svcmap::proxy {
namespace {

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

// Returns a status such as "open /var/lib/svcmap/lock: Permission denied (EACCES)".
absl::Status Failed(const std::string& call, const std::string& path) {
  return ErrnoStatus(errno, call + " " + path);
}

bool OwnedByOthers(const struct stat& file) {
  return file.st_uid != 0 && file.st_uid != ::geteuid();
}

}  // namespace

std::string ChangeableByOthers(const std::string& folder) {
  struct stat found = {};
  if (::stat(folder.c_str(), &found) != 0) return "";
  if (OwnedByOthers(found)) return "owned by uid " + std::to_string(found.st_uid);
  if ((found.st_mode & kWritableByOthers) == 0) return "";
  char mode[16];
  std::snprintf(mode, sizeof(mode), "mode %04o", found.st_mode & 07777);
  return mode;
}

absl::StatusOr<UniqueFd> LockFolder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  if (error) return ErrnoStatus(error.value(), "create folder " + folder);
  const std::string path = folder + "/lock";
  if (absl::IsDataLoss(CheckTrusted(path))) {
    if (absl::Status removed = RemoveFile(path); !removed.ok()) return removed;
  }
  UniqueFd fd(::open(path.c_str(),
                     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
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
  } else if (OwnedByOthers(found)) {
    reason = "is owned by uid " + std::to_string(found.st_uid) + ", expected uid " +
             std::to_string(::geteuid());
  } else if ((found.st_mode & kWritableByOthers) != 0) {
    reason = "is writable by other users";
  } else if (found.st_nlink > 1) {
    reason = "has more than one hard link";
  }
  return reason.empty() ? absl::OkStatus() : absl::DataLossError(path + " " + reason);
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

absl::Status SetAside(const std::string& path, const std::string& to) {
  if (::rename(path.c_str(), to.c_str()) != 0 && errno != ENOENT) {
    return Failed("rename", path + " to " + to);
  }
  return RemoveDatabase(path);
}

}  // namespace svcmap::proxy
