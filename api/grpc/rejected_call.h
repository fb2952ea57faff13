// A call that ends immediately with an error.
#pragma once

#include <grpcpp/support/server_callback.h>

namespace svcmap::api {

// Deletes itself. `Reactor` is the reactor type of gRPC for the method.
template <typename Reactor>
class RejectedCall final : public Reactor {
 public:
  explicit RejectedCall(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace svcmap::api
