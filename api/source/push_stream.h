// One call of svcmap.v1.Control.Push. Messages are sent as serialized bytes. Responses arrive in a
// callback.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/client_callback.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

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
  PushStream(const std::shared_ptr<grpc::Channel>& channel, Handlers handlers)
      : handlers_(std::move(handlers)) {
    grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::PushResponse> stub(channel);
    stub.PrepareBidiStreamingCall(&context_, "/svcmap.v1.Control/Push", {}, this);
    AddHold();  // Required because Write is called outside gRPC callbacks.
    StartRead(&answer_);
    StartCall();
  }
  // Cancels the call if it has not ended.
  ~PushStream() override {
    Cancel();
    Finish();
  }

  enum class Written : uint8_t { kYes, kTimedOut, kBroken };
  // Sends a serialized PushRequest after gRPC has accepted the previous message. Returns kTimedOut
  // if gRPC has not accepted the previous message by `deadline`, and kBroken if the call has
  // failed. Finish then returns the reason. Must always be called on the same thread.
  Written Write(const std::string& message, std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return !writing_ || broken_; });
    if (broken_) return Written::kBroken;
    if (writing_) return Written::kTimedOut;
    writing_ = true;
    const grpc::Slice slice(message);
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    lock.unlock();
    StartWrite(&outgoing_);
    return Written::kYes;
  }

  void Cancel() { context_.TryCancel(); }  // Thread-safe.

  // Waits for the end of the call and returns its status. Call it only if the call is broken or was
  // cancelled. Otherwise it may block forever. Must be called on the thread that calls Write.
  grpc::Status Finish() {
    std::unique_lock lock(mutex_);
    if (!std::exchange(released_, true)) {
      lock.unlock();
      RemoveHold();
      lock.lock();
    }
    changed_.wait(lock, [this] { return end_.has_value(); });
    return *end_;
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      handlers_.on_answer(answer_);
      StartRead(&answer_);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      broken_ = true;
      changed_.notify_all();
    }
    handlers_.on_broken();
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) broken_ = true;
    changed_.notify_all();
  }
  void OnDone(const grpc::Status& status) override {
    // Notify with the mutex held, because the waiting thread may then destroy this object.
    const std::lock_guard lock(mutex_);
    end_ = status;
    changed_.notify_all();
  }

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
