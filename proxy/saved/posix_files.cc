#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <mutex>
#include <utility>

#include "nft/base/status.h"
#include "nft/base/unique_fd.h"
#include "proxy/saved/files.h"

namespace svcmap::proxy {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

// Returns a status such as "open /var/lib/svcmap/state: Permission denied (EACCES)".
absl::Status Failed(const std::string& call, const std::string& path) {
  return ErrnoStatus(errno, call + " " + path);
}

class PosixFile : public File {
 public:
  explicit PosixFile(UniqueFd fd) : fd_(std::move(fd)) {}

  absl::StatusOr<size_t> Read(uint64_t offset, std::span<char> into) override {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t count = ::pread(fd_.get(), into.data() + done, into.size() - done,
                                    static_cast<off_t>(offset + done));
      if (count == 0) break;
      if (count > 0) {
        done += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        return ErrnoStatus(errno, "read");
      }
    }
    return done;
  }

  absl::Status Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd_.get(), bytes.data(), bytes.size());
      if (count >= 0) {
        bytes.remove_prefix(static_cast<size_t>(count));
      } else if (errno != EINTR) {
        return ErrnoStatus(errno, "write");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    return ::fdatasync(fd_.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "sync");
  }

  absl::StatusOr<uint64_t> Size() override {
    struct stat found = {};
    if (::fstat(fd_.get(), &found) != 0) return ErrnoStatus(errno, "stat");
    return static_cast<uint64_t>(found.st_size);
  }

  absl::StatusOr<bool> HasName() override {
    struct stat found = {};
    if (::fstat(fd_.get(), &found) != 0) return ErrnoStatus(errno, "stat");
    return found.st_nlink > 0;
  }

  absl::Status Truncate(uint64_t size) override {
    return ::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0 ? absl::OkStatus()
                                                                 : ErrnoStatus(errno, "truncate");
  }

  absl::Status Lock() override {
    return ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0 ? absl::OkStatus()
                                                      : ErrnoStatus(errno, "lock");
  }

 private:
  const UniqueFd fd_;
};

struct ReplacedFiles {
  std::mutex mutex;
  std::function<void(const std::string&)> report;
};
ReplacedFiles& TheReplacedFiles() {
  static ReplacedFiles& files = *new ReplacedFiles;  // Worker threads may outlive the main thread.
  return files;
}

// Returns kDataLoss with a reason if a user other than root and this process's user may have
// written the file.
absl::Status CheckTrusted(const struct stat& found, const std::string& path) {
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

absl::Status CheckTrusted(int fd, const std::string& path) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) return Failed("stat", path);
  return CheckTrusted(found, path);
}

void ReportReplaced(const absl::Status& untrusted) {
  ReplacedFiles& replaced = TheReplacedFiles();
  const std::lock_guard lock(replaced.mutex);
  if (replaced.report) replaced.report(std::string(untrusted.message()));
}

// Runs `replace`, which deletes or replaces `path` and returns 0 if successful. Reports the
// replacement of a file that another user may have created.
template <typename Fn>
int Replace(const std::string& path, Fn replace) {
  struct stat found = {};
  const absl::Status trusted =
      ::lstat(path.c_str(), &found) == 0 ? CheckTrusted(found, path) : absl::OkStatus();
  const int result = replace();
  if (result == 0 && !trusted.ok()) {
    const int error = errno;
    ReportReplaced(trusted);
    errno = error;
  }
  return result;
}

int Unlink(const std::string& path) {
  return Replace(path, [&] { return ::unlink(path.c_str()); });
}

class TheFiles : public Files {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    absl::StatusOr<UniqueFd> fd = OpenTrusted(path, Flags(mode));
    // Deletes a lock file that another user created, perhaps to block svcmapd by holding the lock.
    if (mode == OpenMode::kLock && absl::IsDataLoss(fd.status()) && Unlink(path) == 0) {
      fd = OpenTrusted(path, Flags(mode));
    }
    // An existing file can be locked even if its file system is read-only.
    if (mode == OpenMode::kLock && !fd.ok() && !absl::IsDataLoss(fd.status())) {
      absl::StatusOr<UniqueFd> read_only = OpenTrusted(path, O_RDONLY);
      if (read_only.ok()) fd = std::move(read_only);
    }
    if (!fd.ok()) return fd.status();
    return std::make_unique<PosixFile>(*std::move(fd));
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    const int result = Replace(to, [&] { return ::rename(from.c_str(), to.c_str()); });
    return result == 0 ? absl::OkStatus() : Failed("rename", from + " to " + to);
  }

  absl::Status Remove(const std::string& path) override {
    return Unlink(path) == 0 ? absl::OkStatus() : Failed("remove", path);
  }

  absl::Status MakeFolder(const std::string& path) override {
    if (::mkdir(path.c_str(), kFolderMode) == 0 || errno == EEXIST) return absl::OkStatus();
    const size_t parent = path.rfind('/');
    if (errno == ENOENT && parent != std::string::npos && parent > 0) {
      const absl::Status made = MakeFolder(path.substr(0, parent));
      if (!made.ok()) return made;
      if (::mkdir(path.c_str(), kFolderMode) == 0) return absl::OkStatus();
    }
    return Failed("create folder", path);
  }

  absl::Status CheckFolder(const std::string& path) override {
    struct stat found = {};
    if (::stat(path.c_str(), &found) != 0) return Failed("stat", path);
    if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
      return absl::PermissionDeniedError("owned by uid " + std::to_string(found.st_uid));
    }
    if ((found.st_mode & kWritableByOthers) != 0) {
      char mode[8];
      std::snprintf(mode, sizeof(mode), "%04o", found.st_mode & 07777);
      return absl::PermissionDeniedError(std::string("mode ") + mode);
    }
    return absl::OkStatus();
  }

  absl::Status SyncFolder(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return fd.ok() && ::fsync(fd.get()) == 0 ? absl::OkStatus() : Failed("sync folder", path);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
    if (dir == nullptr) return Failed("list", folder);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir.get())) names.emplace_back(entry->d_name);
    if (errno != 0) return Failed("list", folder);
    return names;
  }

 private:
  // Opens a file without waiting for another process (FIFO) and without following a symbolic link.
  static absl::StatusOr<UniqueFd> OpenTrusted(const std::string& path, int flags) {
    // Removes an existing file instead of truncating it, because the path may be a hard link to
    // another user's file.
    if ((flags & O_EXCL) != 0) Unlink(path);
    UniqueFd fd(
        ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, kFileMode));
    if (!fd.ok()) {
      if (errno == ELOOP) return absl::DataLossError(path + " is a symbolic link");
      if (errno == ENXIO || errno == EISDIR) return absl::DataLossError(path + " is not a file");
      return Failed("open", path);
    }
    if (absl::Status trusted = CheckTrusted(fd.get(), path); !trusted.ok()) return trusted;
    return fd;
  }

  static int Flags(OpenMode mode) {
    switch (mode) {
      case OpenMode::kUpdate:
        return O_RDWR | O_APPEND;
      case OpenMode::kRead:
        return O_RDONLY;
      case OpenMode::kCreate:
        return O_RDWR | O_APPEND | O_CREAT | O_EXCL;
      case OpenMode::kLock:
        return O_RDWR | O_CREAT;
    }
    return O_RDONLY;
  }
};

}  // namespace

// ErrnoStatus ends each message with the name of the error. The status code does not distinguish
// ENOSPC from other missing resources, such as file descriptors.
bool IsNoSpace(const absl::Status& status) {
  const std::string message(status.message());
  return message.ends_with("(ENOSPC)") || message.ends_with("(EDQUOT)");
}

void ReportReplacedFiles(std::function<void(const std::string& reason)> report) {
  ReplacedFiles& replaced = TheReplacedFiles();
  const std::lock_guard lock(replaced.mutex);
  replaced.report = std::move(report);
}

Files& PosixFiles() {
  static TheFiles files;
  return files;
}

}  // namespace svcmap::proxy
