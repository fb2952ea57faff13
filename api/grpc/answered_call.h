// Calls that the agent rejects, and calls whose responses are computed by Workers instead of
// threads of gRPC. gRPC passes messages as bytes, so that the Workers also parse and serialize the
// messages. The objects delete themselves at the end of the call.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "api/grpc/push_limits.h"
#include "api/grpc/workers.h"

namespace svcmap::api {

// Finishes the call immediately with an error, and deletes itself at the end of the call. `Reactor`
// is gRPC's reactor type of the method.
template <typename Reactor>
class RejectedCall final : public Reactor {
 public:
  explicit RejectedCall(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

// Time limit for a client to read the response of a call. Without the limit, a client that does not
// read keeps the memory of the response, and delays the calls that wait for the end of this call.
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

// Fills the next message of a response. Returns false after the last message.
template <typename Response>
using NextMessage = std::function<bool(Response&)>;

// `Reactor`: grpc::ServerUnaryReactor or grpc::ServerWriteReactor<grpc::ByteBuffer>.
template <typename Reactor, typename Request>
class AnsweredCall : public Reactor {
 public:
  AnsweredCall(grpc::CallbackServerContext* context, const ReadingLimits& read_within,
               Workers& workers, std::string peer)
      : workers_(workers), context_(context), read_within_(read_within), peer_(std::move(peer)) {}

  // Parses the request and calls `answer` as soon as the peer has a slot. The call occupies the
  // slot until End().
  void Start(const grpc::ByteBuffer* bytes, std::function<void(const Request&)> answer) {
    ticket_ = workers_.Start(peer_, [this, bytes, answer = std::move(answer)](Workers::Slot slot) {
      slot_ = std::move(slot);
      grpc::ByteBuffer copy(*bytes);  // Shares the bytes.
      const grpc::Status parsed = grpc::SerializationTraits<Request>::Deserialize(&copy, &request_);
      if (!parsed.ok()) return End(parsed);
      answer(request_);
    });
  }

  // Sends the status. Call End once.
  void End(const grpc::Status& status) {
    StartReadingDeadline();
    slot_.reset();
    this->Finish(status);
  }

  void OnCancel() override {
    if (workers_.Cancel(peer_, ticket_)) this->Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 protected:
  template <typename Response>
  static grpc::Status Serialize(const Response& response, grpc::ByteBuffer& bytes) {
    bool owned = false;
    bytes.Clear();
    return grpc::SerializationTraits<Response>::Serialize(response, &bytes, &owned);
  }
  void StartReadingDeadline() { deadline_.Start(context_, read_within_); }
  void ExtendReadingDeadline(size_t bytes) { deadline_.Extend(context_, bytes); }

  Workers& workers_;

 private:
  grpc::CallbackServerContext* const context_;
  const ReadingLimits read_within_;
  const std::string peer_;
  uint64_t ticket_ = 0;
  Workers::Slot slot_;
  Request request_;
  ReadingDeadline deadline_;
};

template <typename Request, typename Response>
class UnaryCall final : public AnsweredCall<grpc::ServerUnaryReactor, Request> {
 public:
  UnaryCall(grpc::ByteBuffer* response_bytes, auto&&... base)
      : AnsweredCall<grpc::ServerUnaryReactor, Request>(base...), bytes_(response_bytes) {}

  // Sends the response, or only the status if the status is an error. Call Respond or End, once.
  void Respond(const grpc::Status& status) {
    this->End(status.ok() ? this->Serialize(response, *bytes_) : status);
  }

  Response response;

 private:
  grpc::ByteBuffer* const bytes_;
};

// A call with several response messages. Computes each message when the client has read most of the
// previous message.
template <typename Request, typename Response>
class StreamingCall final
    : public AnsweredCall<grpc::ServerWriteReactor<grpc::ByteBuffer>, Request> {
 public:
  using AnsweredCall<grpc::ServerWriteReactor<grpc::ByteBuffer>, Request>::AnsweredCall;

  // Sends all messages, and then the status. Call either Respond or End, once.
  void Respond(NextMessage<Response> next) {
    next_ = std::move(next);
    this->StartReadingDeadline();
    Send();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Stop(grpc::Status::CANCELLED);
    this->ExtendReadingDeadline(bytes_.Length());
    this->workers_.Continue([this] { Send(); });
  }

 private:
  void Send() {
    Response response;
    if (!next_(response)) return Stop(grpc::Status::OK);
    if (grpc::Status status = this->Serialize(response, bytes_); !status.ok()) return Stop(status);
    this->StartWrite(&bytes_);
  }
  void Stop(const grpc::Status& status) {
    next_ = nullptr;  // The memory of the response is free before the slot.
    this->End(status);
  }

  NextMessage<Response> next_;
  grpc::ByteBuffer bytes_;  // The message that is being sent.
};

}  // namespace svcmap::api
