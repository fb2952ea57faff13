// Authorizes each call by the role of the client, and then calls the ControlService. Each role has
// its own GuardedControl and its own threads. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "api/access/access.h"
#include "api/grpc/answered_call.h"
#include "api/grpc/control_service.h"
#include "api/grpc/push_stream.h"
#include "api/grpc/status.h"
#include "api/grpc/workers.h"
#include "api/log/log_value.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

// Calls of Push and Watch use gRPC's threads, because these calls never wait.
using ControlBase = v1::Control::WithRawCallbackMethod_Push<v1::Control::WithCallbackMethod_Watch<
    v1::Control::WithRawCallbackMethod_Apply<v1::Control::WithRawCallbackMethod_Remove<
        v1::Control::WithRawCallbackMethod_List<v1::Control::WithRawCallbackMethod_GetStatus<
            v1::Control::WithRawCallbackMethod_Dump<v1::Control::WithRawCallbackMethod_Explain<
                v1::Control::WithRawCallbackMethod_AcceptSnapshot<v1::Control::Service>>>>>>>>>;

class GuardedControl final : public ControlBase {
 public:
  using Identify = std::function<Peer(const grpc::ServerContextBase&)>;

  // `calls` is the maximum number of calls of Apply and Remove, and the maximum number of calls of
  // List and Explain. One peer can use a quarter of them. `read_within` is the time for a client to
  // read a response.
  GuardedControl(ControlService& control, Identify identify, size_t calls,
                 const ReadingLimits& read_within)
      : control_(control),
        identify_(std::move(identify)),
        read_within_(read_within),
        changes_(calls, calls / 4, calls),
        reads_(calls, calls / 4, 1) {}

 private:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using BytesWriter = grpc::ServerWriteReactor<grpc::ByteBuffer>;
  using WatchWriter = grpc::ServerWriteReactor<v1::WatchEvent>;

  PushReactor* Push(Context* context) override {
    const Peer peer = identify_(*context);
    if (const grpc::Status rejected = Check(peer, "Push"); !rejected.ok()) {
      return new RejectedCall<PushReactor>(rejected);
    }
    return control_.Push(context, peer.name);
  }
  WatchWriter* Watch(Context* context, const v1::WatchRequest*) override {
    const Peer peer = identify_(*context);
    if (const grpc::Status rejected = Check(peer, "Watch"); !rejected.ok()) {
      return new RejectedCall<WatchWriter>(rejected);
    }
    return control_.Watch(peer.key);
  }
  grpc::ServerUnaryReactor* Apply(Context* context, const Bytes* request,
                                  Bytes* response) override {
    return Unary(context, request, response, "Apply", changes_, &ControlService::Apply);
  }
  grpc::ServerUnaryReactor* Remove(Context* context, const Bytes* request,
                                   Bytes* response) override {
    return Unary(context, request, response, "Remove", changes_, &ControlService::Remove);
  }
  grpc::ServerUnaryReactor* AcceptSnapshot(Context* context, const Bytes* request,
                                           Bytes* response) override {
    return Unary(context, request, response, "AcceptSnapshot", changes_,
                 &ControlService::AcceptSnapshot);
  }
  grpc::ServerUnaryReactor* GetStatus(Context* context, const Bytes* request,
                                      Bytes* response) override {
    return Unary(context, request, response, "GetStatus", status_calls_,
                 &ControlService::GetStatus);
  }
  grpc::ServerUnaryReactor* Explain(Context* context, const Bytes* request,
                                    Bytes* response) override {
    return Unary(context, request, response, "Explain", reads_, &ControlService::Explain);
  }
  BytesWriter* List(Context* context, const Bytes* request) override {
    return Streaming(context, request, "List", reads_, &ControlService::List);
  }
  BytesWriter* Dump(Context* context, const Bytes* request) override {
    return Streaming(context, request, "Dump", dumps_, &ControlService::Dump);
  }

  // Returns PERMISSION_DENIED, and counts and logs the call, if the peer may not call the method.
  grpc::Status Check(const Peer& peer, const char* name) {
    if (peer.role >= NeededRole(name)) return grpc::Status::OK;
    const std::string text =
        RejectionText(std::string("svcmap.v1.Control/") + name, peer.name, peer.role);
    control_.rejected_calls().Add(peer.name, "call denied client=" + LogValue(peer.name) +
                                                 " method=" + name + " error=" + LogValue(text));
    return Error(grpc::PERMISSION_DENIED, v1::NOT_AUTHORIZED, text,
                 {{"method", name}, {"client", peer.name}});
  }

  // Runs `method` on a thread of `workers` if the peer is authorized.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Unary(
      Context* context, const Bytes* request, Bytes* response, const char* name, Workers& workers,
      grpc::Status (ControlService::*method)(const Caller&, const Request&, Response&)) {
    const Peer peer = identify_(*context);
    if (const grpc::Status rejected = Check(peer, name); !rejected.ok()) {
      return new RejectedCall<grpc::ServerUnaryReactor>(rejected);
    }
    auto* call =
        new UnaryCall<Request, Response>(response, context, read_within_, workers, peer.key);
    call->Start(request, [=, this, client = peer.name](const Request& parsed) {
      call->Respond((control_.*method)({*context, client}, parsed, call->response));
    });
    return call;
  }

  // Like Unary. `method` sets the function that fills the messages of the response.
  template <typename Request, typename Response>
  BytesWriter* Streaming(Context* context, const Bytes* request, const char* name, Workers& workers,
                         grpc::Status (ControlService::*method)(const Caller&, const Request&,
                                                                NextMessage<Response>&)) {
    const Peer peer = identify_(*context);
    if (const grpc::Status rejected = Check(peer, name); !rejected.ok()) {
      return new RejectedCall<BytesWriter>(rejected);
    }
    auto* call = new StreamingCall<Request, Response>(context, read_within_, workers, peer.key);
    call->Start(request, [=, this, client = peer.name](const Request& parsed) {
      NextMessage<Response> next;
      const grpc::Status status = (control_.*method)({*context, client}, parsed, next);
      if (!status.ok()) return call->End(status);
      call->Respond(std::move(next));
    });
    return call;
  }

  ControlService& control_;
  const Identify identify_;
  const ReadingLimits read_within_;

  // GetStatus never waits. Apply, Remove and AcceptSnapshot wait for commits.
  Workers status_calls_{4, 1, 4};
  Workers changes_;
  // One thread copies and converts objects, so that readers leave CPU time to the loop.
  Workers reads_;
  // The text of a dump can have hundreds of megabytes, which are in use until the client has read
  // the text. Therefore only one call of Dump is processed at a time. ReadingLimits limits the time
  // for which a client delays the next call.
  Workers dumps_{1, 1, 1};
};

}  // namespace svcmap::api
