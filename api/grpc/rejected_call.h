// Reactor of a call that the agent rejects.
#pragma once

#include <grpcpp/support/server_callback.h>

namespace svcmap::api {

// Finishes the call immediately with an error, and deletes itself at the end of the call. `Reactor`
// is gRPC's reactor type of the method.
template <typename Reactor>
class RejectedCall final : public Reactor {
 public:
  explicit RejectedCall(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace svcmap::api
