// Ends a worker thread and its calls. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

namespace svcmap::etcd {

class StopFlag {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
    changed_.notify_all();
  }
  bool is_set() const {
    const std::lock_guard lock(mutex_);
    return set_;
  }
  // Waits until `time`. Returns false if the worker must stop.
  bool WaitUntil(std::chrono::steady_clock::time_point time) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_until(lock, time, [this] { return set_; });
  }

  // A call that Set cancels while this object exists. If the flag is already set, the call is
  // cancelled now.
  class Call {
   public:
    Call(StopFlag& flag, grpc::ClientContext& context) : flag_(flag), context_(context) {
      const std::lock_guard lock(flag_.mutex_);
      flag_.contexts_.insert(&context_);
      if (flag_.set_) context_.TryCancel();
    }
    ~Call() {
      const std::lock_guard lock(flag_.mutex_);
      flag_.contexts_.erase(&context_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    StopFlag& flag_;
    grpc::ClientContext& context_;
  };

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
  std::set<grpc::ClientContext*> contexts_;
};

}  // namespace svcmap::etcd
