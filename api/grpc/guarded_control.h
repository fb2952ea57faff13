// Authorizes each call by the role of the client, and then calls the ControlService. Each role has
// its own GuardedControl and its own threads. Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "api/grpc/answered_call.h"
#include "api/grpc/push_stream.h"
#include "api/grpc/workers.h"
#include "api/screen/peer.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

class ControlService;

struct GuardedControlOptions {
  // Maximum number of calls of Apply and Remove, and maximum number of calls of List and Explain.
  // One peer can use a quarter of them.
  size_t calls = 16;
  ReadingLimits read_within;  // Time for a client to read a response.
};

// Calls of Push and Watch use gRPC's threads, because these calls never wait.
using ControlBase = v1::Control::WithRawCallbackMethod_Push<v1::Control::WithCallbackMethod_Watch<
    v1::Control::WithRawCallbackMethod_Apply<v1::Control::WithRawCallbackMethod_Remove<
        v1::Control::WithRawCallbackMethod_List<v1::Control::WithRawCallbackMethod_GetStatus<
            v1::Control::WithRawCallbackMethod_Dump<v1::Control::WithRawCallbackMethod_Explain<
                v1::Control::WithRawCallbackMethod_AcceptSnapshot<v1::Control::Service>>>>>>>>>;

class GuardedControl final : public ControlBase {
 public:
  using Identify = std::function<Peer(const grpc::ServerContextBase&)>;

  GuardedControl(ControlService& control, Identify identify, const GuardedControlOptions& options)
      : control_(control), identify_(std::move(identify)), options_(options) {}

  PushReactor* Push(grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<v1::WatchEvent>* Watch(grpc::CallbackServerContext* context,
                                                  const v1::WatchRequest* request) override;
  grpc::ServerUnaryReactor* Apply(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Remove(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* AcceptSnapshot(grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* List(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Dump(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request) override;

 private:
  // Returns PERMISSION_DENIED, and counts and logs the call, if the caller may not call `method`.
  grpc::Status Check(const Peer& caller, const char* method);
  // Runs `answer` on a thread of `workers` if the caller is authorized.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Unary(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
      grpc::ByteBuffer* response, const char* method, Workers& workers,
      std::function<grpc::Status(const Peer&, const Request&, Response&)> answer);
  // Like Unary. `answer` sets the function that fills the messages of the response.
  template <typename Request, typename Response>
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Streaming(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request, const char* method,
      Workers& workers, std::function<grpc::Status(const Request&, NextMessage<Response>&)> answer);

  ControlService& control_;
  const Identify identify_;
  const GuardedControlOptions options_;

  // GetStatus never waits. Apply, Remove and AcceptSnapshot wait for commits.
  Workers status_calls_{4, 1, 4};
  Workers changes_{options_.calls, options_.calls / 4, options_.calls};
  // One thread copies and converts objects, so that readers leave CPU time to the loop.
  Workers reads_{options_.calls, options_.calls / 4, 1};
  // The text of a dump can have hundreds of megabytes, which are in use until the client has read
  // the text. Therefore only one call of Dump is processed at a time. ReadingLimits limits the time
  // for which a client delays the next call.
  Workers dumps_{1, 1, 1};
};

}  // namespace svcmap::api
