// A stream that ends at once.
#pragma once

#include <grpcpp/support/server_callback.h>

namespace svcmap::api {

// Deletes itself.
template <typename Request, typename Response>
class RefusedStream final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace svcmap::api
