// Time limit for a client to read the response of a call. Without the limit, a client that does not
// read keeps the memory of the response, and delays the calls that wait for the end of this call.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>

#include "api/grpc/push_limits.h"

namespace svcmap::api {

// Not thread-safe.
class ReadingDeadline {
 public:
  ReadingDeadline() = default;
  // Must be destroyed before the context, for example in OnDone().
  ~ReadingDeadline() { Disarm(); }

  // Cancels the call when the time limit has expired. Call Start before the response is sent.
  // Further calls of Start have no effect.
  void Start(grpc::CallbackServerContext* context, const ReadingLimits& limits) {
    if (call_) return;
    limits_ = limits;
    begin_ = std::chrono::system_clock::now();
    Arm(context);
  }

  // Extends the time limit. Call Extend after Start, when the client has read `bytes` bytes.
  void Extend(grpc::CallbackServerContext* context, size_t bytes) {
    read_ += bytes;
    Disarm();
    Arm(context);
  }

 private:
  struct Call {
    std::mutex mutex;
    grpc::CallbackServerContext* context = nullptr;
  };

  void Arm(grpc::CallbackServerContext* context) {
    call_ = std::make_shared<Call>();
    call_->context = context;
    alarm_ = std::make_unique<grpc::Alarm>();
    const auto for_data = std::chrono::milliseconds(read_ * 1000 / (size_t{1} << 20));
    const auto deadline = begin_ + std::min(limits_.base + for_data, limits_.most);
    alarm_->Set(deadline, [call = call_](bool expired) {
      const std::lock_guard lock(call->mutex);
      if (expired && call->context != nullptr) call->context->TryCancel();
    });
  }

  void Disarm() {
    if (!call_) return;
    {
      const std::lock_guard lock(call_->mutex);
      call_->context = nullptr;
    }
    alarm_->Cancel();
  }

  ReadingLimits limits_;
  std::chrono::system_clock::time_point begin_;
  size_t read_ = 0;
  std::shared_ptr<Call> call_;
  std::unique_ptr<grpc::Alarm> alarm_;
};

}  // namespace svcmap::api
