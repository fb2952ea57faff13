// Sends GET requests to the API server over one persistent connection, with libcurl.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/kube/http/api_server.h"

namespace svcmap::kube {

struct HttpResponse {
  int status = 0;                       // 200, 401, 410 ...
  std::string content_type;             // Value of the header.
  std::chrono::seconds retry_after{0};  // 0 if the header is missing or invalid.
};

struct HttpRequest {
  std::string path;    // Includes the query: "/api/v1/services?watch=1".
  std::string accept;  // "application/vnd.kubernetes.protobuf"
  std::chrono::milliseconds first_byte_timeout{30000};  // Includes the connection setup.
  std::chrono::milliseconds silence_timeout{30000};  // Maximum time between two parts of the body.
};

// Handles one request at a time, so each watch needs its own client. Only Stop is thread-safe.
class HttpClient {
 public:
  // `user_agent`: "svcmap-kube/0.1.0".
  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(ApiServer server,
                                                            std::string user_agent);
  ~HttpClient();

  using OnBody = absl::FunctionRef<absl::Status(const HttpResponse&, std::string_view)>;

  // Sends a request and blocks until the response is complete. `on_body` receives the body in
  // pieces, for any HTTP status. If it returns an error, the request ends and Get returns this
  // error. Every HTTP status is a successful result of Get. Redirects are not followed. Other
  // errors name the server and the reason:
  // UNAVAILABLE: the connection failed or was lost.
  // DEADLINE_EXCEEDED: a timeout has expired.
  // UNAUTHENTICATED: TLS authentication failed, or credentials could not be read.
  // CANCELLED: Stop was called.
  absl::StatusOr<HttpResponse> Get(const HttpRequest& request, OnBody on_body);

  // Cancels the current request and all later requests with CANCELLED. Thread-safe.
  void Stop();

 private:
  struct Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::kube
