// A fixed HTTP listen address, such as the address of /metrics. A bind failure is either an error
// or retried (S-258, S-268). Used only on the thread of the event loop.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "api/health/http_point.h"

namespace svcmap::api {

struct ServedAddressOptions {
  BindAddress at;
  bool hard_fail = false;
  std::chrono::milliseconds retry{5000};
  std::string what;  // Paths for log messages: "/healthz and /livez".
};

class ServedAddress {
 public:
  ServedAddress(event_base* base, Connections& connections, HttpPoint::Handler handler,
                ServedAddressOptions options);

  // Returns an error only if `hard_fail` is true.
  absl::Status Open();

 private:
  const ServedAddressOptions options_;
  HttpPoint point_;
  absl::Status failure_;  // The latest failure. The same failure is logged only once.
  Event retry_;
};

}  // namespace svcmap::api
