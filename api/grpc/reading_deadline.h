// Time limit for a client to read the response of a call. Without the limit, a client that does not
// read keeps the memory of the response.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <memory>
#include <mutex>

namespace svcmap::api {

class ReadingDeadline {
 public:
  ReadingDeadline() = default;
  // Must be destroyed before the context, for example in OnDone().
  ~ReadingDeadline() {
    if (!call_) return;
    {
      const std::lock_guard lock(call_->mutex);
      call_->context = nullptr;
    }
    alarm_.Cancel();
  }

  // Cancels the call after `within`. Call Start before the response is sent. Further calls of Start
  // have no effect.
  void Start(grpc::CallbackServerContext* context, std::chrono::milliseconds within) {
    if (call_) return;
    call_ = std::make_shared<Call>();
    call_->context = context;
    alarm_.Set(std::chrono::system_clock::now() + within, [call = call_](bool expired) {
      const std::lock_guard lock(call->mutex);
      if (expired && call->context != nullptr) call->context->TryCancel();
    });
  }

 private:
  struct Call {
    std::mutex mutex;
    grpc::CallbackServerContext* context = nullptr;
  };
  std::shared_ptr<Call> call_;
  grpc::Alarm alarm_;
};

}  // namespace svcmap::api
