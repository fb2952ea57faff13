// Stands before the control service and lets through what the caller's role allows: the only place
// that asks. Each listener has one of its own, so that who called is known from where the call
// came in. Any thread.
#pragma once

#include <functional>
#include <string>

#include "api/access/access.h"
#include "api/grpc/call_slot.h"
#include "api/grpc/push_stream.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

class ControlService;

class GuardedControl final : public v1::Control::WithRawCallbackMethod_Push<
                                 v1::Control::WithCallbackMethod_Watch<v1::Control::Service>> {
 public:
  struct Caller {
    Role role = Role::kNone;
    std::string name;  // "uid 1000"; for people.
  };
  using Identify = std::function<Caller(const grpc::ServerContextBase&)>;

  GuardedControl(ControlService& control, Identify identify)
      : control_(control), identify_(std::move(identify)) {}

  PushReactor* Push(grpc::CallbackServerContext* context) override;
  grpc::Status Apply(grpc::ServerContext* context, const v1::ApplyRequest* request,
                     v1::Ack* ack) override;
  grpc::Status Remove(grpc::ServerContext* context, const v1::RemoveRequest* request,
                      v1::Ack* ack) override;
  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest* request,
                    grpc::ServerWriter<v1::ListResponse>* writer) override;
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status Dump(grpc::ServerContext* context, const v1::DumpRequest* request,
                    grpc::ServerWriter<v1::DumpResponse>* writer) override;
  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchEvent>* Watch(grpc::CallbackServerContext* context,
                                                  const v1::WatchRequest* request) override;

 private:
  // PERMISSION_DENIED, counted and logged, unless the caller may.
  grpc::Status Check(const grpc::ServerContextBase& context, const char* method);
  // Check, then the method itself.
  template <typename... Arguments>
  grpc::Status Call(const char* name,
                    grpc::Status (ControlService::*method)(grpc::ServerContext*, Arguments...),
                    grpc::ServerContext* context, Arguments... arguments);

  ControlService& control_;
  const Identify identify_;
  CallSlot dump_slot_;
};

}  // namespace svcmap::api
