// In-memory files with fault injection at any call. MemoryFiles simulates the effects of crashes.
// If the process is killed, all written data is kept. After a loss of power, all synced data and a
// random part of the unsynced data are kept. The unsynced data is truncated at a sector boundary.
#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nft/base/status.h"
#include "proxy/saved/files.h"
#include "tests/differential/dice.h"

namespace svcmap::proxy::test {

class MemoryFiles : public Files {
 public:
  enum class Call : uint8_t {
    kOpen,
    kRead,
    kAppend,
    kSync,
    kSize,
    kHasName,
    kTruncate,
    kLock,
    kRename,
    kRemove,
    kMakeFolder,
    kSyncFolder,
    kList
  };
  struct Fault {
    int error = 0;  // The errno of the failed call, or 0.
    // If true, the process crashes at the call, so the call and all later calls fail.
    bool crash = false;
    bool done = false;        // If true, the call fails but takes effect.
    size_t bytes = SIZE_MAX;  // Number of bytes that an Append call writes.
  };
  // Function that runs before each file call and receives the number of previous calls. The
  // function may make file calls.
  using Plan = std::function<Fault(size_t number, Call call)>;

  void SetPlan(Plan plan) {
    const std::lock_guard lock(mutex_);
    plan_ = std::move(plan);
  }
  size_t calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  bool crashed() const {
    const std::lock_guard lock(mutex_);
    return crashed_;
  }

  // Starts a new process. File objects of the old process become invalid.
  void Restart() {
    const std::lock_guard lock(mutex_);
    ++run_;
    crashed_ = false;
    plan_ = nullptr;
    for (auto& [path, inode] : names_) inode->locked = false;
  }
  // Starts a new process after a loss of power.
  void PowerLoss(testing::Dice& dice) {
    Restart();
    const std::lock_guard lock(mutex_);
    name_history_.push_back(names_);
    names_ = name_history_[dice.Below(name_history_.size())];
    name_history_ = {names_};
    for (auto& [path, inode] : names_) {
      inode->data = Torn(*inode, dice);
      inode->synced = inode->data;
    }
  }

  // Returns the content of a file, without fault injection.
  std::optional<std::string> Content(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(path);
    if (found == names_.end()) return std::nullopt;
    return found->second->data;
  }
  // Returns true if both the content and the name of the file are on disk.
  bool IsSynced(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(path);
    return found != names_.end() && found->second->synced == found->second->data &&
           name_history_.size() == 1;
  }
  void SetContent(const std::string& path, std::string content) {
    const std::lock_guard lock(mutex_);
    names_[path] = std::make_shared<Inode>(Inode{.data = content, .synced = content});
    name_history_ = {names_};
  }
  // Damages one byte of the file, even if the file is open.
  void Damage(const std::string& path, size_t offset) {
    const std::lock_guard lock(mutex_);
    names_.at(path)->data.at(offset) ^= 1;
  }
  std::vector<std::string> Names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [path, inode] : names_) names.push_back(path);
    return names;
  }

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    std::unique_ptr<File> file;
    const absl::Status status = Do(Call::kOpen, "open " + path, [&](size_t) {
      auto found = names_.find(path);
      const bool make = mode == OpenMode::kCreate || mode == OpenMode::kLock;
      if (found == names_.end() && !make) return ENOENT;
      if (found == names_.end()) {
        found = names_.emplace(path, std::make_shared<Inode>()).first;
        NamesChanged();
      }
      if (mode == OpenMode::kCreate) found->second->data.clear();
      file = std::make_unique<MemoryFile>(*this, found->second);
      return 0;
    });
    if (!status.ok()) return status;
    return file;
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Do(Call::kRename, "rename " + from, [&](size_t) {
      const auto found = names_.find(from);
      if (found == names_.end()) return ENOENT;
      names_[to] = found->second;
      names_.erase(from);
      NamesChanged();
      return 0;
    });
  }
  absl::Status Remove(const std::string& path) override {
    return Do(Call::kRemove, "remove " + path, [&](size_t) {
      if (names_.erase(path) == 0) return ENOENT;
      NamesChanged();
      return 0;
    });
  }
  absl::Status MakeFolder(const std::string& path) override {
    return Do(Call::kMakeFolder, "make folder " + path, [](size_t) { return 0; });
  }
  absl::Status CheckFolder(const std::string&) override { return absl::OkStatus(); }
  absl::Status SyncFolder(const std::string& path) override {
    return Do(Call::kSyncFolder, "sync folder " + path, [this](size_t) {
      name_history_ = {names_};
      return 0;
    });
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    std::vector<std::string> names;
    const absl::Status status = Do(Call::kList, "list " + folder, [&](size_t) {
      for (const auto& [path, inode] : names_) names.push_back(path.substr(folder.size() + 1));
      return 0;
    });
    if (!status.ok()) return status;
    return names;
  }

 private:
  struct Inode {
    std::string data;
    std::string synced;
    bool locked = false;
  };
  using Directory = std::map<std::string, std::shared_ptr<Inode>>;

  class MemoryFile : public File {
   public:
    MemoryFile(MemoryFiles& files, std::shared_ptr<Inode> inode)
        : files_(files), inode_(std::move(inode)), run_(files.run_) {}
    ~MemoryFile() override {
      const std::lock_guard lock(files_.mutex_);
      if (locked_ && run_ == files_.run_) inode_->locked = false;
    }

    absl::StatusOr<size_t> Read(uint64_t offset, std::span<char> into) override {
      size_t count = 0;
      const absl::Status status = Do(Call::kRead, "read", [&](size_t) {
        const std::string& data = inode_->data;
        if (offset < data.size()) count = data.copy(into.data(), into.size(), offset);
        return 0;
      });
      if (!status.ok()) return status;
      return count;
    }
    absl::Status Append(std::string_view bytes) override {
      return Do(Call::kAppend, "write", [&](size_t count) {
        inode_->data += bytes.substr(0, count);
        return 0;
      });
    }
    absl::Status Sync() override {
      return Do(Call::kSync, "sync", [&](size_t) {
        inode_->synced = inode_->data;
        return 0;
      });
    }
    absl::StatusOr<bool> HasName() override {
      bool named = false;
      const absl::Status status = Do(Call::kHasName, "stat", [&](size_t) {
        for (const auto& [path, inode] : files_.names_) named |= inode == inode_;
        return 0;
      });
      if (!status.ok()) return status;
      return named;
    }
    absl::StatusOr<uint64_t> Size() override {
      uint64_t size = 0;
      const absl::Status status = Do(Call::kSize, "stat", [&](size_t) {
        size = inode_->data.size();
        return 0;
      });
      if (!status.ok()) return status;
      return size;
    }
    absl::Status Truncate(uint64_t size) override {
      return Do(Call::kTruncate, "truncate", [&](size_t) {
        inode_->data.resize(size);
        return 0;
      });
    }
    absl::Status Lock() override {
      return Do(Call::kLock, "lock", [&](size_t) {
        if (inode_->locked) return EAGAIN;
        locked_ = inode_->locked = true;
        return 0;
      });
    }

   private:
    template <typename Fn>
    absl::Status Do(Call call, const char* what, Fn fn) {
      return files_.Do(call, what, fn, run_);
    }

    MemoryFiles& files_;
    const std::shared_ptr<Inode> inode_;
    const int run_;
    bool locked_ = false;
  };

  template <typename Fn>
  absl::Status Do(Call call, const std::string& what, Fn fn, std::optional<int> run = {}) {
    std::unique_lock lock(mutex_);
    const auto dead = [&] { return crashed_ || run.value_or(run_) != run_; };
    if (dead()) return ErrnoStatus(EIO, what);
    const size_t number = calls_++;
    const Plan plan = plan_;
    lock.unlock();
    const Fault fault = plan ? plan(number, call) : Fault{};
    lock.lock();
    if (dead()) return ErrnoStatus(EIO, what);
    if (fault.crash) crashed_ = true;
    if (fault.error == 0 && !fault.crash) {
      const int error = fn(SIZE_MAX);
      return error == 0 ? absl::OkStatus() : ErrnoStatus(error, what);
    }
    if (fault.done) {
      fn(SIZE_MAX);
    } else if (call == Call::kAppend && fault.bytes != SIZE_MAX) {
      fn(fault.bytes);
    }
    return ErrnoStatus(fault.crash ? EIO : fault.error, what);
  }

  void NamesChanged() { name_history_.push_back(names_); }

  static std::string Torn(const Inode& inode, testing::Dice& dice) {
    constexpr size_t kSector = 512;
    const bool appended = inode.data.starts_with(inode.synced);
    if (!appended && dice.Chance(50)) return inode.synced;
    const size_t safe = appended ? inode.synced.size() : 0;
    std::string torn = inode.data.substr(0, safe + dice.Below(inode.data.size() - safe + 1));
    if (dice.Chance(50)) return torn;
    for (size_t sector = safe / kSector; sector * kSector < torn.size(); ++sector) {
      if (dice.Chance(60)) continue;
      const char garbage = dice.Chance(50) ? '\0' : static_cast<char>(dice.Below(256));
      const size_t begin = std::max(safe, sector * kSector);
      const size_t end = std::min(torn.size(), (sector + 1) * kSector);
      std::fill(torn.begin() + static_cast<ptrdiff_t>(begin),
                torn.begin() + static_cast<ptrdiff_t>(end), garbage);
    }
    return torn;
  }

  mutable std::mutex mutex_;
  Plan plan_;
  size_t calls_ = 0;
  bool crashed_ = false;
  int run_ = 0;
  Directory names_;
  // Versions of the directory that may be on disk: the content at the last sync and after each
  // later change.
  std::vector<Directory> name_history_ = {{}};
};

}  // namespace svcmap::proxy::test
