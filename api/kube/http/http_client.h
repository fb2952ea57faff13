// GET requests to the API server over one kept connection, with libcurl.
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
  std::string content_type;             // As the header says.
  std::chrono::seconds retry_after{0};  // 0: the header was not there, or not a number.
};

struct HttpRequest {
  std::string path;    // With its query: "/api/v1/services?watch=1".
  std::string accept;  // "application/vnd.kubernetes.protobuf, application/json"
  std::chrono::milliseconds first_byte_timeout{30000};  // Connecting included.
  std::chrono::milliseconds silence_timeout{30000};     // Between bytes of the body.
};

// One request at a time; several clients for several watches. Thread: all but Stop of one thread.
class HttpClient {
 public:
  // `user_agent`: "svcmap-kube/0.1.0".
  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(ApiServer server,
                                                            std::string user_agent);
  ~HttpClient();

  using OnBody = absl::FunctionRef<absl::Status(const HttpResponse&, std::string_view)>;

  // Blocks until the answer is complete. `on_body` gets the body in pieces, whatever the status is;
  // an error of it ends the request and is returned. Any HTTP status is OK here. UNAVAILABLE: no
  // connection, or it broke; DEADLINE_EXCEEDED: a timeout; UNAUTHENTICATED: TLS does not trust one
  // another, or credentials cannot be read; CANCELLED: Stop. Messages name the server and what is
  // wrong. Redirects are not followed.
  absl::StatusOr<HttpResponse> Get(const HttpRequest& request, OnBody on_body);

  // Any thread: the request that runs and all later ones end with CANCELLED.
  void Stop();

 private:
  struct Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::kube
