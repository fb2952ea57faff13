// One address at which something is served for the life of the process: what cannot be listened on
// is tried again, or is an error (S-258, S-268). Owned by the thread of the event loop.
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
  std::string what;  // Is served there, for the log: "/healthz and /livez are".
};

class ServedAddress {
 public:
  ServedAddress(event_base* base, Connections& connections, HttpPoint::Handler handler,
                ServedAddressOptions options);

  // Fails only with `hard_fail`.
  absl::Status Open();

 private:
  const ServedAddressOptions options_;
  HttpPoint point_;
  absl::Status failure_;  // Logged once while it is the same.
  Event retry_;
};

}  // namespace svcmap::api
