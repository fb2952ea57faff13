#include "proxy/saved/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

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

absl::Status Trusted(const struct stat& found, const std::string& path) {
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

}  // namespace

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
  const std::string path = folder + "/lock";
  if (absl::IsDataLoss(CheckTrusted(path))) {
    if (absl::Status removed = Unlink(path); !removed.ok()) return removed;
  }
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | kFlags, kFileMode));
  // An existing file can be locked even if its file system is read-only.
  if (!fd.ok() && errno == EROFS) fd = UniqueFd(::open(path.c_str(), O_RDONLY | kFlags));
  if (!fd.ok()) return Failed("open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return Failed("lock", path);
  return absl::FailedPreconditionError("another agent uses the folder " + folder);
}

absl::Status CheckTrusted(const std::string& path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return Failed("stat", path);
  return Trusted(found, path);
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  if (dir == nullptr) return Failed("list", folder);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(dir.get())) names.emplace_back(entry->d_name);
  if (errno != 0) return Failed("list", folder);
  return names;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus()
                                                 : Failed("rename", from + " to " + to);
}

absl::Status Unlink(const std::string& path) {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : Failed("remove", path);
}

absl::Status CreateFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
  return fd.ok() ? absl::OkStatus() : Failed("create", path);
}

absl::Status SyncPath(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.ok() && ::fsync(fd.get()) == 0 ? absl::OkStatus() : Failed("sync", path);
}

}  // namespace svcmap::proxy
