// Allows one call at a time. Further calls wait, and stop waiting when they are cancelled.
// Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace svcmap::api {

class CallSlot {
 public:
  // Uses the slot during its lifetime, if owned() returns true.
  class Lease {
   public:
    Lease(CallSlot& slot, const grpc::ServerContext& context)
        : slot_(slot), owned_(slot.Take(context)) {}
    ~Lease() {
      if (owned_) slot_.Free();
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    bool owned() const { return owned_; }  // False if the call was cancelled while it waited.

   private:
    CallSlot& slot_;
    const bool owned_;
  };

 private:
  static constexpr std::chrono::milliseconds kCheckInterval{50};

  bool Take(const grpc::ServerContext& context) {
    std::unique_lock lock(mutex_);
    while (!freed_.wait_for(lock, kCheckInterval, [this] { return !taken_; })) {
      if (context.IsCancelled()) return false;
    }
    taken_ = true;
    return true;
  }
  void Free() {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    freed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  bool taken_ = false;
};

}  // namespace svcmap::api
