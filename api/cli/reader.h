// Read-only calls of the agent's API. A Client sends the calls to an agent, and a BundleReader
// answers the calls from a support bundle.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

class Reader {
 public:
  virtual ~Reader() = default;

  virtual absl::StatusOr<v1::GetStatusResponse> GetStatus() = 0;
  virtual absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) = 0;

  // Pass each streamed message to `take` when the message arrives. If `take` returns false, the
  // call is cancelled and returns OK.
  virtual absl::Status List(const v1::ListRequest& request,
                            const std::function<bool(const v1::ListResponse&)>& take) = 0;
  virtual absl::Status Dump(const v1::DumpRequest& request,
                            const std::function<bool(const v1::DumpResponse&)>& take) = 0;
};

}  // namespace svcmap::api
