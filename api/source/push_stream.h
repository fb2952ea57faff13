// One call of svcmap.v1.Control.Push. Messages are sent as serialized bytes. Responses arrive in a
// callback.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "svcmap/v1/control.pb.h"

namespace svcmap::source {

class PushStream final : private grpc::ClientBidiReactor<grpc::ByteBuffer, v1::PushResponse> {
 public:
  struct Handlers {
    // Called on gRPC threads, one call at a time. Never called after Finish has returned.
    std::function<void(const v1::PushResponse&)> on_answer;
    // Called once: no more responses will arrive.
    std::function<void()> on_broken;
  };

  // Starts the call.
  PushStream(const std::shared_ptr<grpc::Channel>& channel, Handlers handlers);
  ~PushStream() override;  // Cancels the call if it has not ended.

  enum class Written : uint8_t { kYes, kTimedOut, kBroken };
  // Sends a serialized PushRequest after gRPC has accepted the previous message. Returns kTimedOut
  // if gRPC has not accepted the previous message by `deadline`, and kBroken if the call has
  // failed. Finish then returns the reason. Must always be called on the same thread.
  Written Write(const std::string& message, std::chrono::steady_clock::time_point deadline);

  void Cancel();  // Thread-safe.

  // Waits for the end of the call and returns its status. Call it only if the call is broken or was
  // cancelled. Otherwise it may block forever. Must be called on the thread that calls Write.
  grpc::Status Finish();

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const Handlers handlers_;
  grpc::ClientContext context_;
  v1::PushResponse answer_;    // Buffer of the current read.
  grpc::ByteBuffer outgoing_;  // Buffer of the current write.

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool writing_ = false;
  bool broken_ = false;
  // True if Finish has removed the hold, so no new operation may start outside gRPC callbacks.
  bool released_ = false;
  std::optional<grpc::Status> end_;
};

}  // namespace svcmap::source
