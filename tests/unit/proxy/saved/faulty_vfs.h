// An SQLite VFS for tests: unix-excl whose writes and syncs fail or do not return. It stands for a
// full, failing or hung disk. There is one instance, because SQLite keeps a list of VFSs.
#pragma once

#include <sqlite3.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace svcmap::proxy::test {

class FaultyVfs {
 public:
  enum class Call : uint8_t { kOpen, kRead, kWrite, kSync };
  static constexpr char kName[] = "faulty";

  static FaultyVfs& Get() {
    static FaultyVfs& vfs = *new FaultyVfs;  // Threads that hang may outlive the test.
    return vfs;
  }

  // `fault` returns the result of a call, SQLITE_OK if the call has no fault.
  void SetFault(std::function<int(Call)> fault) {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
  }
  // The next `pass` calls of this kind return, and all later calls do not return until Release().
  void Hang(Call call, int pass = 0) {
    const std::lock_guard lock(mutex_);
    passes_[static_cast<size_t>(call)] = pass;
  }
  // Ends all faults.
  void Release() {
    const std::lock_guard lock(mutex_);
    fault_ = nullptr;
    for (std::optional<int>& passes : passes_) passes.reset();
    released_.notify_all();
  }
  // Number of calls that do not return.
  int hanging() const {
    const std::lock_guard lock(mutex_);
    return hanging_;
  }

 private:
  // SQLite allocates szOsFile bytes, so the file of the other VFS follows.
  struct File {
    sqlite3_file base;
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };

  FaultyVfs() {
    real_ = sqlite3_vfs_find("unix-excl");
    vfs_ = *real_;
    vfs_.zName = kName;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.pNext = nullptr;
    vfs_.xOpen = &FaultyVfs::Open;
    // The functions of unix-excl use only pAppData and mxPathname, which are copies.
    methods_ = {
        .iVersion = 2,
        .xClose = [](sqlite3_file* f) { return M(f)->xClose(R(f)); },
        .xRead =
            [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
              const int fault = Get().Before(Call::kRead);
              return fault != SQLITE_OK ? fault : M(f)->xRead(R(f), to, size, at);
            },
        .xWrite =
            [](sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
              const int fault = Get().Before(Call::kWrite);
              return fault != SQLITE_OK ? fault : M(f)->xWrite(R(f), from, size, at);
            },
        .xTruncate = [](sqlite3_file* f,
                        sqlite3_int64 size) { return M(f)->xTruncate(R(f), size); },
        .xSync =
            [](sqlite3_file* f, int flags) {
              const int fault = Get().Before(Call::kSync);
              return fault != SQLITE_OK ? fault : M(f)->xSync(R(f), flags);
            },
        .xFileSize = [](sqlite3_file* f,
                        sqlite3_int64* size) { return M(f)->xFileSize(R(f), size); },
        .xLock = [](sqlite3_file* f, int lock) { return M(f)->xLock(R(f), lock); },
        .xUnlock = [](sqlite3_file* f, int lock) { return M(f)->xUnlock(R(f), lock); },
        .xCheckReservedLock = [](sqlite3_file* f,
                                 int* result) { return M(f)->xCheckReservedLock(R(f), result); },
        .xFileControl = [](sqlite3_file* f, int op,
                           void* arg) { return M(f)->xFileControl(R(f), op, arg); },
        .xSectorSize = [](sqlite3_file* f) { return M(f)->xSectorSize(R(f)); },
        .xDeviceCharacteristics =
            [](sqlite3_file* f) { return M(f)->xDeviceCharacteristics(R(f)); },
        .xShmMap = [](sqlite3_file* f, int page, int size, int extend,
                      void volatile** to) { return M(f)->xShmMap(R(f), page, size, extend, to); },
        .xShmLock = [](sqlite3_file* f, int offset, int n,
                       int flags) { return M(f)->xShmLock(R(f), offset, n, flags); },
        .xShmBarrier = [](sqlite3_file* f) { M(f)->xShmBarrier(R(f)); },
        .xShmUnmap = [](sqlite3_file* f, int remove) { return M(f)->xShmUnmap(R(f), remove); },
        .xFetch = nullptr,
        .xUnfetch = nullptr};
    sqlite3_vfs_register(&vfs_, 0);
  }

  static sqlite3_file* R(sqlite3_file* file) { return reinterpret_cast<File*>(file)->real(); }
  static const sqlite3_io_methods* M(sqlite3_file* file) { return R(file)->pMethods; }

  static int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    file->pMethods = nullptr;
    if (const int fault = Get().Before(Call::kOpen); fault != SQLITE_OK) return fault;
    const int result = Get().real_->xOpen(Get().real_, name, R(file), flags, out);
    if (M(file) != nullptr) file->pMethods = &Get().methods_;
    return result;
  }

  int Before(Call call) {
    std::unique_lock lock(mutex_);
    if (fault_) {
      if (const int fault = fault_(call); fault != SQLITE_OK) return fault;
    }
    std::optional<int>& passes = passes_[static_cast<size_t>(call)];
    if (passes && (*passes)-- > 0) return SQLITE_OK;
    ++hanging_;
    released_.wait(lock, [&] { return !passes; });
    --hanging_;
    return SQLITE_OK;
  }

  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::function<int(Call)> fault_;
  std::optional<int> passes_[4];  // Without a value, calls of the kind return.
  int hanging_ = 0;
  sqlite3_vfs* real_ = nullptr;
  sqlite3_vfs vfs_ = {};
  sqlite3_io_methods methods_ = {};
};

}  // namespace svcmap::proxy::test
