// Sends requests to the API server with libcurl. Requests that run at the same time share one
// connection if the server supports HTTP/2. Otherwise, each of them has its own connection. Only
// HttpClient::Stop and HttpClient::Wake are thread-safe.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  std::string method = "GET";
  std::string content_type;  // Of the body. Requests with the method GET have no body.
  std::string body;
  std::chrono::milliseconds first_byte_timeout{30000};  // Includes the connection setup.
  std::chrono::milliseconds silence_timeout{30000};  // Maximum time between two parts of the body.
};

struct FreeCurl {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlList = std::unique_ptr<curl_slist, FreeCurl>;

class HttpTransfer;

// The server, the credentials for it and the connections to it.
class HttpClient {
 public:
  using Clock = std::chrono::steady_clock;

  HttpClient(ApiServer server, std::string user_agent);  // `user_agent`: "svcmap-kube/0.1.0".
  ~HttpClient();                                         // All transfers must have been destroyed.

  // Waits for data, at the latest until the time `until`. Calls the functions of the transfers that
  // have received data, have ended or have timed out. Returns false after Stop.
  bool Run(Clock::time_point until);
  void Stop();  // Ends the current and all later calls of Run. Thread-safe.
  void Wake();  // Ends the current or the next call of Run. Thread-safe.

 private:
  friend class HttpTransfer;

  // Reads the files again. If their content is invalid, for example because only one file of a pair
  // was replaced, the previous content stays in effect, and problem_ contains the reason. Returns
  // an error only if there is no previous content.
  absl::Status RefreshCredentials();
  std::string Authorization() const;
  std::string Problem() const;  // The end of an error message: "; in addition, ...", or "".
  std::string Name() const;
  void LeaveConnection(HttpTransfer& failed, CURLcode code);

  const ApiServer server_;
  const std::string user_agent_;
  std::string base_url_;  // Its host is the name that TLS verifies.
  CurlList connect_to_;
  api::TlsFiles tls_names_;  // "certificate-authority /etc/kubernetes/ca.crt", for messages.
  api::TlsMaterial tls_;
  bool tls_usable_ = false;  // True if tls_ was read and is valid.
  std::string token_;
  absl::Status problem_;

  std::atomic<bool> stopped_ = false;
  CURLM* const multi_;
  std::vector<HttpTransfer*> transfers_;
  int alert_ = -1;  // Fatal TLS alert that arrived after the newest request was started, or -1.
};

// Handles one request at a time.
class HttpTransfer {
 public:
  explicit HttpTransfer(HttpClient& client);
  virtual ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;

  // Starts a request. The transfer must not be busy. HttpClient::Run calls OnBody and OnEnd. If the
  // credentials cannot be read, Send calls OnEnd.
  void Send(const HttpRequest& request);
  bool busy() const { return busy_; }  // True until the request has ended.

 private:
  friend class HttpClient;

  // Receives a piece of the body, for any HTTP status. If the function returns false, the request
  // is cancelled and OnEnd is not called.
  virtual bool OnBody(const HttpResponse& response, std::string_view piece) = 0;
  // Every HTTP status is a success, except a 401 while a file of the credentials is not usable.
  // Redirects are not followed. Errors name the server and the reason:
  // UNAVAILABLE: the connection failed or was lost.
  // DEADLINE_EXCEEDED: a timeout has expired.
  // UNAUTHENTICATED: TLS authentication failed, or the credentials are not usable.
  virtual void OnEnd(const absl::StatusOr<HttpResponse>& response) = 0;

  // Callbacks of libcurl. libcurl aborts the request if the result is not `bytes`.
  static size_t OnHeader(const char*, size_t, size_t bytes, void* transfer);
  static size_t OnBytes(const char* data, size_t, size_t bytes, void* transfer);
  void Answer();
  HttpClient::Clock::time_point Deadline() const;
  long LocalPort() const;  // Local port of the connection, or 0 before a connection is used.
  void End(CURLcode code);
  absl::Status Explain(CURLcode code) const;  // The message does not contain the server's name.
  std::string CertificateProblem() const;

  HttpClient& client_;
  const std::unique_ptr<CURL, FreeCurl> easy_;
  CurlList headers_;
  bool busy_ = false;
  bool fresh_connection_ = false;  // True if the next request needs a new connection.

  // The current request and its response.
  std::chrono::milliseconds first_byte_timeout_{}, silence_timeout_{};
  HttpResponse response_;                 // The status is 0 until it is known.
  bool heard_ = false;                    // True if data of the response has arrived.
  bool cancelled_ = false;                // True if OnBody has returned false.
  HttpClient::Clock::time_point last_{};  // When the request was sent, or when data last arrived.
  char error_text_[CURL_ERROR_SIZE] = {};
};

}  // namespace svcmap::kube
