// One call of svcmap.v1.Control.Push: messages go out as bytes, answers come in by callback.
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

namespace svcmap::kube {

class PushStream final : private grpc::ClientBidiReactor<grpc::ByteBuffer, v1::PushResponse> {
 public:
  struct Handlers {
    // On threads of gRPC, one at a time; nothing after Finish returned.
    std::function<void(const v1::PushResponse&)> on_answer;
    std::function<void()> on_broken;  // Nothing is answered any more. Once.
  };

  // Begins the call.
  PushStream(const std::shared_ptr<grpc::Channel>& channel, Handlers handlers);
  ~PushStream() override;  // Cancels it if it has not ended.

  enum class Written : uint8_t { kYes, kTimedOut, kBroken };
  // Sends a serialized PushRequest once gRPC has taken the one before. kLate: it has not by
  // `deadline`. kBroken: the call is, and Finish tells why. One thread.
  Written Write(const std::string& message, std::chrono::steady_clock::time_point deadline);

  void Cancel();  // Any thread.

  // Waits for the end, which has to be near: it is broken, or was cancelled. The thread of Write.
  grpc::Status Finish();

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const Handlers handlers_;
  grpc::ClientContext context_;
  v1::PushResponse answer_;    // Of the read under way.
  grpc::ByteBuffer outgoing_;  // Of the write under way.

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool writing_ = false;
  bool broken_ = false;
  bool released_ = false;  // Nothing is begun any more from outside of gRPC's callbacks.
  std::optional<grpc::Status> end_;
};

}  // namespace svcmap::kube
