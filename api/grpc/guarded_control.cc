#include "api/grpc/guarded_control.h"

#include <utility>

#include "api/grpc/control_service.h"
#include "api/grpc/rejected_call.h"
#include "api/grpc/status.h"
#include "api/log/log_value.h"

namespace svcmap::api {

grpc::Status GuardedControl::Check(const Peer& caller, const char* method) {
  if (caller.role >= NeededRole(method)) return grpc::Status::OK;
  const std::string text =
      RejectionText(std::string("svcmap.v1.Control/") + method, caller.name, caller.role);
  control_.rejected_calls().Add(caller.name, "call denied client=" + LogValue(caller.name) +
                                                 " method=" + method + " error=" + LogValue(text));
  return Error(grpc::PERMISSION_DENIED, v1::NOT_AUTHORIZED, text,
               {{"method", method}, {"client", caller.name}});
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* GuardedControl::Unary(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response, const char* method, Workers& workers,
    std::function<grpc::Status(const Peer&, const Request&, Response&)> answer) {
  const Peer caller = identify_(*context);
  if (const grpc::Status rejected = Check(caller, method); !rejected.ok()) {
    return new RejectedCall<grpc::ServerUnaryReactor>(rejected);
  }
  auto* call = new UnaryCall<Request, Response>(response, context, options_.read_within, workers,
                                                caller.key);
  call->Start(request, [call, caller, answer = std::move(answer)](const Request& parsed) {
    call->Respond(answer(caller, parsed, call->response));
  });
  return call;
}

template <typename Request, typename Response>
grpc::ServerWriteReactor<grpc::ByteBuffer>* GuardedControl::Streaming(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request, const char* method,
    Workers& workers, std::function<grpc::Status(const Request&, NextMessage<Response>&)> answer) {
  const Peer caller = identify_(*context);
  if (const grpc::Status rejected = Check(caller, method); !rejected.ok()) {
    return new RejectedCall<grpc::ServerWriteReactor<grpc::ByteBuffer>>(rejected);
  }
  auto* call =
      new StreamingCall<Request, Response>(context, options_.read_within, workers, caller.key);
  call->Start(request, [call, answer = std::move(answer)](const Request& parsed) {
    NextMessage<Response> next;
    const grpc::Status status = answer(parsed, next);
    if (!status.ok()) return call->End(status);
    call->Respond(std::move(next));
  });
  return call;
}

PushReactor* GuardedControl::Push(grpc::CallbackServerContext* context) {
  const Peer caller = identify_(*context);
  if (const grpc::Status rejected = Check(caller, "Push"); !rejected.ok()) {
    return new RejectedCall<PushReactor>(rejected);
  }
  return control_.Push(context, caller.name);
}

grpc::ServerWriteReactor<v1::WatchEvent>* GuardedControl::Watch(
    grpc::CallbackServerContext* context, const v1::WatchRequest*) {
  const Peer caller = identify_(*context);
  if (const grpc::Status rejected = Check(caller, "Watch"); !rejected.ok()) {
    return new RejectedCall<grpc::ServerWriteReactor<v1::WatchEvent>>(rejected);
  }
  return control_.Watch(caller.key);
}

grpc::ServerUnaryReactor* GuardedControl::Apply(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return Unary<envelope::v1::ApplyRequest, v1::Ack>(
      context, request, response, "Apply", changes_,
      [this](const Peer& caller, const envelope::v1::ApplyRequest& parsed, v1::Ack& ack) {
        return control_.Apply(parsed, caller.name, ack);
      });
}

grpc::ServerUnaryReactor* GuardedControl::Remove(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return Unary<v1::RemoveRequest, v1::Ack>(
      context, request, response, "Remove", changes_,
      [this](const Peer& caller, const v1::RemoveRequest& parsed, v1::Ack& ack) {
        return control_.Remove(parsed, caller.name, ack);
      });
}

grpc::ServerUnaryReactor* GuardedControl::AcceptSnapshot(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) {
  return Unary<v1::AcceptSnapshotRequest, v1::Ack>(
      context, request, response, "AcceptSnapshot", changes_,
      [this](const Peer& caller, const v1::AcceptSnapshotRequest& parsed, v1::Ack& ack) {
        return control_.AcceptSnapshot(parsed, caller.name, ack);
      });
}

grpc::ServerUnaryReactor* GuardedControl::GetStatus(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return Unary<v1::GetStatusRequest, v1::GetStatusResponse>(
      context, request, response, "GetStatus", status_calls_,
      [this](const Peer&, const v1::GetStatusRequest&, v1::GetStatusResponse& status) {
        control_.FillStatus(status);
        return grpc::Status::OK;
      });
}

grpc::ServerUnaryReactor* GuardedControl::Explain(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Unary<v1::ExplainRequest, v1::ExplainResponse>(
      context, request, response, "Explain", reads_,
      [this, context](const Peer&, const v1::ExplainRequest& parsed,
                      v1::ExplainResponse& explained) {
        return control_.Explain(*context, parsed, explained);
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GuardedControl::List(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return Streaming<v1::ListRequest, v1::ListResponse>(
      context, request, "List", reads_,
      [this](const auto& parsed, auto& next) { return control_.List(parsed, next); });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GuardedControl::Dump(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return Streaming<v1::DumpRequest, v1::DumpResponse>(
      context, request, "Dump", dumps_, [this, context](const auto& parsed, auto& next) {
        return control_.Dump(*context, parsed, next);
      });
}

}  // namespace svcmap::api
