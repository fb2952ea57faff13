#include "api/source/push_stream.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <utility>

namespace svcmap::source {

PushStream::PushStream(const std::shared_ptr<grpc::Channel>& channel, Handlers handlers)
    : handlers_(std::move(handlers)) {
  grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::PushResponse> stub(channel);
  stub.PrepareBidiStreamingCall(&context_, "/svcmap.v1.Control/Push", {}, this);
  AddHold();  // Required because Write is called outside gRPC callbacks.
  StartRead(&answer_);
  StartCall();
}

PushStream::~PushStream() {
  Cancel();
  Finish();
}

PushStream::Written PushStream::Write(const std::string& message,
                                      std::chrono::steady_clock::time_point deadline) {
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

void PushStream::Cancel() { context_.TryCancel(); }

grpc::Status PushStream::Finish() {
  std::unique_lock lock(mutex_);
  if (!std::exchange(released_, true)) {
    lock.unlock();
    RemoveHold();
    lock.lock();
  }
  changed_.wait(lock, [this] { return end_.has_value(); });
  return *end_;
}

void PushStream::OnReadDone(bool ok) {
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

void PushStream::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (!ok) broken_ = true;
  changed_.notify_all();
}

void PushStream::OnDone(const grpc::Status& status) {
  // Notify with the mutex held, because the waiting thread may then destroy this object.
  const std::lock_guard lock(mutex_);
  end_ = status;
  changed_.notify_all();
}

}  // namespace svcmap::source
