// Serves /healthz, /livez and /metrics of svcmap-kube on its own thread and event loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/health/bind_address.h"
#include "api/kube/status_pages.h"

namespace svcmap::kube {

class StatusServer {
 public:
  // `facts` is called for each response, on the server's thread. If the address cannot be bound,
  // the server retries.
  static absl::StatusOr<std::unique_ptr<StatusServer>> Start(const api::BindAddress& at,
                                                             std::function<BridgeFacts()> facts);
  ~StatusServer();

 private:
  class Impl;
  explicit StatusServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::kube
