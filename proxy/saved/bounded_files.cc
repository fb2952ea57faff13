#include "proxy/saved/bounded_files.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace svcmap::proxy {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

absl::Status NoAnswer(const std::string& call, Clock::duration waited) {
  return absl::DeadlineExceededError(
      call + ": no response from the disk for " +
      std::to_string(std::chrono::duration_cast<Milliseconds>(waited).count()) + " ms");
}

// Worker threads that run file calls. Each thread shares ownership of the Workers object, because a
// thread that waits for a hung disk may outlive all other owners.
class Workers : public std::enable_shared_from_this<Workers> {
 public:
  void Post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    if (idle_ >= queue_.size()) {
      wake_.notify_one();
    } else {
      // The thread is detached, because a thread that waits for a hung disk cannot be joined.
      std::thread([self = shared_from_this()] { self->Run(); }).detach();
    }
  }

  // Hang() reports a call that exceeded its limit. Recover() reports that a call has returned after
  // its limit.
  void Hang() {
    const std::lock_guard lock(mutex_);
    if (hung_++ == 0) since_ = Clock::now();
  }
  void Recover() {
    const std::lock_guard lock(mutex_);
    --hung_;
  }
  std::optional<Clock::duration> hung() const {
    const std::lock_guard lock(mutex_);
    if (hung_ == 0) return std::nullopt;
    return Clock::now() - since_;
  }

  void Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    wake_.notify_all();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      wake_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
      --idle_;
      if (queue_.empty()) return;
      {
        const std::function<void()> work = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        work();
      }
      lock.lock();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  size_t idle_ = 0;
  bool stopped_ = false;
  int hung_ = 0;
  Clock::time_point since_;
};

// State of one call, shared by the caller and the worker thread, because the caller may return
// first.
template <typename Result>
struct Call {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Result> result;
  bool abandoned = false;
};

// Runs `function` on a worker thread and returns its result. `function` must own all objects that
// it uses, because the function may run after the caller has returned.
template <typename Result, typename Fn>
Result RunBounded(const std::shared_ptr<Workers>& workers, const std::string& name,
                  Milliseconds limit, Fn function) {
  if (const std::optional<Clock::duration> hung = workers->hung()) return NoAnswer(name, *hung);
  const auto start = Clock::now();
  const auto call = std::make_shared<Call<Result>>();
  workers->Post([workers, call, function = std::make_shared<Fn>(std::move(function))] {
    Result result = (*function)();
    const std::lock_guard lock(call->mutex);
    if (call->abandoned) return workers->Recover();
    call->result = std::move(result);
    call->done.notify_one();
  });
  std::unique_lock lock(call->mutex);
  if (call->done.wait_for(lock, limit, [&] { return call->result.has_value(); })) {
    return *std::move(call->result);
  }
  call->abandoned = true;
  workers->Hang();
  return NoAnswer(name, Clock::now() - start);
}

class BoundedFile : public File {
 public:
  BoundedFile(std::shared_ptr<Workers> workers, std::shared_ptr<File> file,
              const BoundedFilesLimits& limits)
      : workers_(std::move(workers)), file_(std::move(file)), limits_(limits) {}

  absl::StatusOr<size_t> Read(uint64_t offset, std::span<char> into) override {
    // A read that returns after its limit must not write to the caller's memory.
    auto bytes = std::make_shared<std::string>(into.size(), '\0');
    absl::StatusOr<size_t> size =
        Run<absl::StatusOr<size_t>>("read", limits_.other, [file = file_, offset, bytes] {
          return file->Read(offset, std::span<char>(bytes->data(), bytes->size()));
        });
    if (size.ok()) std::copy_n(bytes->begin(), *size, into.begin());
    return size;
  }
  absl::Status Append(std::string_view bytes) override {
    return Run<absl::Status>("write", limits_.write, [file = file_, bytes = std::string(bytes)] {
      return file->Append(bytes);
    });
  }
  absl::Status Sync() override {
    return Run<absl::Status>("sync", limits_.sync, [file = file_] { return file->Sync(); });
  }
  absl::StatusOr<uint64_t> Size() override {
    return Run<absl::StatusOr<uint64_t>>("stat", limits_.other,
                                         [file = file_] { return file->Size(); });
  }
  absl::Status Truncate(uint64_t size) override {
    return Run<absl::Status>("truncate", limits_.other,
                             [file = file_, size] { return file->Truncate(size); });
  }
  absl::StatusOr<bool> HasName() override {
    return Run<absl::StatusOr<bool>>("stat", limits_.other,
                                     [file = file_] { return file->HasName(); });
  }
  absl::Status Lock() override {
    return Run<absl::Status>("lock", limits_.other, [file = file_] { return file->Lock(); });
  }

 private:
  template <typename Result, typename Fn>
  Result Run(const char* name, Milliseconds limit, Fn call) const {
    return RunBounded<Result>(workers_, name, limit, std::move(call));
  }

  const std::shared_ptr<Workers> workers_;
  const std::shared_ptr<File> file_;
  const BoundedFilesLimits limits_;
};

class BoundedFiles : public Files {
 public:
  BoundedFiles(Files& files, const BoundedFilesLimits& limits) : files_(files), limits_(limits) {}
  ~BoundedFiles() override { workers_->Stop(); }

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    using Opened = absl::StatusOr<std::unique_ptr<File>>;
    Opened opened = Run<Opened>("open " + path,
                                [&files = files_, path, mode] { return files.Open(path, mode); });
    if (!opened.ok()) return opened;
    return std::make_unique<BoundedFile>(workers_, *std::move(opened), limits_);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return RunBounded<absl::Status>(workers_, "rename " + from + " to " + to, limits_.write,
                                    [&files = files_, from, to] { return files.Rename(from, to); });
  }
  absl::Status Remove(const std::string& path) override {
    return RunBounded<absl::Status>(workers_, "remove " + path, limits_.write,
                                    [&files = files_, path] { return files.Remove(path); });
  }
  absl::Status MakeFolder(const std::string& path) override {
    return Run<absl::Status>("make folder " + path,
                             [&files = files_, path] { return files.MakeFolder(path); });
  }
  absl::Status CheckFolder(const std::string& path) override {
    return Run<absl::Status>("stat " + path,
                             [&files = files_, path] { return files.CheckFolder(path); });
  }
  absl::Status SyncFolder(const std::string& path) override {
    return RunBounded<absl::Status>(workers_, "sync folder " + path, limits_.sync,
                                    [&files = files_, path] { return files.SyncFolder(path); });
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    return Run<absl::StatusOr<std::vector<std::string>>>(
        "list " + folder, [&files = files_, folder] { return files.List(folder); });
  }

 private:
  template <typename Result, typename Fn>
  Result Run(const std::string& name, Fn call) const {
    return RunBounded<Result>(workers_, name, limits_.other, std::move(call));
  }

  Files& files_;
  const BoundedFilesLimits limits_;
  const std::shared_ptr<Workers> workers_ = std::make_shared<Workers>();
};

}  // namespace

std::unique_ptr<Files> MakeBoundedFiles(Files& files, BoundedFilesLimits limits) {
  return std::make_unique<BoundedFiles>(files, limits);
}

}  // namespace svcmap::proxy
