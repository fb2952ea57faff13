#include "api/grpc/guarded_control.h"

#include "api/grpc/call_deadline.h"
#include "api/grpc/control_service.h"
#include "api/grpc/rejected_stream.h"
#include "api/grpc/status.h"
#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

// Of List and Dump; a List of a million endpoints takes seconds.
constexpr std::chrono::seconds kCallTime{60};

}  // namespace

grpc::Status GuardedControl::Check(const grpc::ServerContextBase& context, const char* method) {
  const Caller caller = identify_(context);
  if (caller.role >= NeededRole(method)) return grpc::Status::OK;
  const std::string text =
      RejectionText(std::string("svcmap.v1.Control/") + method, caller.name, caller.role);
  control_.rejected_calls().Add(caller.name, "call denied client=" + LogValue(caller.name) +
                                                 " method=" + method + " error=" + LogValue(text));
  return Error(grpc::PERMISSION_DENIED, v1::NOT_AUTHORIZED, text,
               {{"method", method}, {"client", caller.name}});
}

template <typename... Arguments>
grpc::Status GuardedControl::Call(const char* name,
                                  grpc::Status (ControlService::*method)(grpc::ServerContext*,
                                                                         Arguments...),
                                  grpc::ServerContext* context, Arguments... arguments) {
  if (grpc::Status rejected = Check(*context, name); !rejected.ok()) return rejected;
  return (control_.*method)(context, arguments...);
}

PushReactor* GuardedControl::Push(grpc::CallbackServerContext* context) {
  if (const grpc::Status rejected = Check(*context, "Push"); !rejected.ok()) {
    return new RejectedStream<PushReactor>(rejected);
  }
  return control_.Push(context);
}

grpc::Status GuardedControl::Apply(grpc::ServerContext* context, const v1::ApplyRequest* request,
                                   v1::Ack* ack) {
  return Call("Apply", &ControlService::Apply, context, request, ack);
}

grpc::Status GuardedControl::Remove(grpc::ServerContext* context, const v1::RemoveRequest* request,
                                    v1::Ack* ack) {
  return Call("Remove", &ControlService::Remove, context, request, ack);
}

grpc::Status GuardedControl::List(grpc::ServerContext* context, const v1::ListRequest* request,
                                  grpc::ServerWriter<v1::ListResponse>* writer) {
  const CallDeadline deadline(context, kCallTime);
  return Call("List", &ControlService::List, context, request, writer);
}

grpc::Status GuardedControl::GetStatus(grpc::ServerContext* context,
                                       const v1::GetStatusRequest* request,
                                       v1::GetStatusResponse* response) {
  return Call("GetStatus", &ControlService::GetStatus, context, request, response);
}

grpc::Status GuardedControl::Dump(grpc::ServerContext* context, const v1::DumpRequest* request,
                                  grpc::ServerWriter<v1::DumpResponse>* writer) {
  if (grpc::Status rejected = Check(*context, "Dump"); !rejected.ok()) return rejected;
  const CallDeadline deadline(context, kCallTime);
  // The text of a dump can have hundreds of megabytes. The slot is not free until the client has
  // read the text. Each role has its own slot, so that readers cannot delay controllers.
  const CallSlot::Lease lease(dump_slot_, *context);
  if (!lease.owned()) return grpc::Status::CANCELLED;
  return control_.Dump(context, request, writer);
}

grpc::Status GuardedControl::Explain(grpc::ServerContext* context,
                                     const v1::ExplainRequest* request,
                                     v1::ExplainResponse* response) {
  return Call("Explain", &ControlService::Explain, context, request, response);
}

grpc::ServerWriteReactor<v1::WatchEvent>* GuardedControl::Watch(
    grpc::CallbackServerContext* context, const v1::WatchRequest* request) {
  if (const grpc::Status rejected = Check(*context, "Watch"); !rejected.ok()) {
    return new RejectedStream<grpc::ServerWriteReactor<v1::WatchEvent>>(rejected);
  }
  return control_.Watch(context, request);
}

}  // namespace svcmap::api
