// A stream that ends at once.
#pragma once

#include <grpcpp/support/server_callback.h>

namespace svcmap::api {

// Deletes itself. `Reactor`: what gRPC has for streams of this kind.
template <typename Reactor>
class RejectedStream final : public Reactor {
 public:
  explicit RejectedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace svcmap::api
