// Cancels a call that takes too long: a client that does not read its answer would keep one of
// gRPC's threads forever.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <memory>
#include <mutex>

namespace svcmap::api {

// Lives in the handler of the call. The handler's next Write() fails after `within`.
class CallDeadline {
 public:
  CallDeadline(grpc::ServerContext* context, std::chrono::milliseconds within)
      : call_(std::make_shared<Call>()) {
    call_->context = context;
    alarm_.Set(std::chrono::system_clock::now() + within, [call = call_](bool expired) {
      const std::lock_guard lock(call->mutex);
      if (expired && call->context != nullptr) call->context->TryCancel();
    });
  }
  ~CallDeadline() {
    {
      const std::lock_guard lock(call_->mutex);
      call_->context = nullptr;
    }
    alarm_.Cancel();
  }

 private:
  struct Call {
    std::mutex mutex;
    grpc::ServerContext* context = nullptr;
  };
  std::shared_ptr<Call> call_;
  grpc::Alarm alarm_;
};

}  // namespace svcmap::api
