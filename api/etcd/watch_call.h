// One call of etcdserverpb.Watch. All functions must be called on the same thread, one after the
// other. After kTimeout, only Resume may be called. After kEnded, only Finish may be called.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "api/fleet/etcd_connection.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"

namespace svcmap::etcd {

class WatchCall {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Starts the call. `context` and the responses that Read receives must outlive the WatchCall.
  WatchCall(etcdserverpb::Watch::Stub& stub, grpc::ClientContext& context) : context_(context) {
    // A member that has lost the leader ends the watch, because it cannot receive changes.
    context.AddMetadata("hasleader", "true");
    stream_ = stub.AsyncWatch(&context, &queue_, this);
  }

  ~WatchCall() {
    context_.TryCancel();  // A call that has ended is not affected.
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) continue;
  }

  enum class Result : uint8_t { kDone, kTimeout, kEnded };

  Result Write(const etcdserverpb::WatchCreateRequest& create, Time deadline) {
    etcdserverpb::WatchRequest request;
    *request.mutable_create_request() = create;
    stream_->Write(request, this);
    return Resume(deadline);
  }

  Result Read(etcdserverpb::WatchResponse& response, Time deadline) {
    stream_->Read(&response, this);
    return Resume(deadline);
  }

  // Waits for the start of the call, or continues to wait for the operation that has timed out.
  Result Resume(Time deadline) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, fleet::DeadlineOf(deadline)) ==
        grpc::CompletionQueue::TIMEOUT) {
      return Result::kTimeout;
    }
    return ok ? Result::kDone : Result::kEnded;
  }

  // Returns the status after kEnded.
  grpc::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, this);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return status;
  }

 private:
  grpc::ClientContext& context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      stream_;
};

}  // namespace svcmap::etcd
