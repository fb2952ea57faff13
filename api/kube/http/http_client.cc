#include "api/kube/http/http_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nft/base/status.h"

namespace svcmap::kube {
namespace {

using Clock = HttpClient::Clock;
using std::chrono::milliseconds;

// Without HTTP/2, each of the four watches has its own connection.
constexpr long kMaxConnections = 4;

// The kernel detects dead peers: it sends the first keepalive probe after 30 s without traffic, and
// closes the connection after 45 s without an acknowledgement. The same limit applies to sent data.
constexpr long kProbeAfterSeconds = 30;
constexpr long kProbeEverySeconds = 5;
constexpr unsigned kUnansweredMilliseconds = 45000;

int SetUpSocket(void*, curl_socket_t fd, curlsocktype) {
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnansweredMilliseconds,
             sizeof(kUnansweredMilliseconds));
  return CURL_SOCKOPT_OK;
}

void AppendTo(CurlList& list, const std::string& line) {
  list.reset(curl_slist_append(list.release(), line.c_str()));
}

void SetBlob(CURL* easy, CURLoption option, const std::string& pem) {
  curl_blob blob = {const_cast<char*>(pem.data()), pem.size(), CURL_BLOB_COPY};
  curl_easy_setopt(easy, option, pem.empty() ? nullptr : &blob);
}

void NoteAlert(const SSL* ssl, int where, int code) {
  constexpr int kFatal = 2;
  if (where != SSL_CB_READ_ALERT || (code >> 8) != kFatal) return;
  *static_cast<int*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl))) = code & 0xff;
}

CURLcode WatchAlerts(CURL*, void* context, void* alert) {
  SSL_CTX_set_app_data(static_cast<SSL_CTX*>(context), alert);
  SSL_CTX_set_info_callback(static_cast<SSL_CTX*>(context), NoteAlert);
  return CURLE_OK;
}

// libcurl's initialization fails only without memory.
CURLM* NewMulti() {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURLM* multi = initialized == CURLE_OK ? curl_multi_init() : nullptr;
  if (multi == nullptr) throw std::bad_alloc();
  return multi;
}

std::string FieldName(const std::string& field, const std::string& pem, const std::string& file) {
  if (!pem.empty()) return field + "-data";
  return file.empty() ? "" : field + " " + file;
}

// Replaces unprintable characters, because libcurl's text may contain data from the server.
std::string PrintableDetail(std::string text) {
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text.empty() ? "no details available" : text;
}

std::string ShowSeconds(std::chrono::milliseconds time) {
  return absl::StrFormat("%g s", static_cast<double>(time.count()) / 1000);
}

absl::Status AlertError(int alert, const std::string& certificate) {
  const std::string what =
      absl::StrCat("server closed the TLS connection with the alert \"",
                   SSL_alert_desc_string_long(alert), "\"; ",
                   certificate.empty() ? "no client certificate is configured"
                                       : "the client certificate is " + certificate);
  // An API server that has no certificate yet sends internal_error.
  return alert == SSL_AD_INTERNAL_ERROR ? absl::UnavailableError(what)
                                        : absl::UnauthenticatedError(what);
}

}  // namespace

HttpClient::HttpClient(ApiServer server, std::string user_agent)
    : server_(std::move(server)),
      user_agent_(std::move(user_agent)),
      tls_names_{FieldName("client-certificate", server_.tls_text.certificate,
                           server_.tls_files.certificate),
                 FieldName("client-key", server_.tls_text.key, server_.tls_files.key),
                 FieldName("certificate-authority", server_.tls_text.ca, server_.tls_files.ca)},
      token_(server_.token),
      multi_(NewMulti()) {
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kMaxConnections);
  ServerUrl url = server_.url;
  if (!server_.tls_server_name.empty()) {
    // The URL contains the name that TLS verifies. CURLOPT_CONNECT_TO contains the real host.
    AppendTo(connect_to_, absl::StrCat("::", url.host, ":", url.port));
    url.host = HostInUrl(server_.tls_server_name);
  }
  base_url_ = url.ToString();
}

HttpClient::~HttpClient() { curl_multi_cleanup(multi_); }

bool HttpClient::Run(Clock::time_point until) {
  for (const HttpTransfer* transfer : transfers_) {
    if (transfer->busy_) until = std::min(until, transfer->Deadline());
  }
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
  curl_multi_poll(multi_, nullptr, 0,
                  static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000)), nullptr);
  int running = 0;
  curl_multi_perform(multi_, &running);
  int waiting = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &waiting)) {
    HttpTransfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    transfer->End(message->data.result);
  }
  for (HttpTransfer* transfer : transfers_) {
    if (transfer->busy_ && transfer->Deadline() <= Clock::now()) {
      transfer->End(CURLE_OPERATION_TIMEDOUT);
    }
  }
  return !stopped_;
}

void HttpClient::Stop() {
  stopped_ = true;
  Wake();
}

void HttpClient::Wake() { curl_multi_wakeup(multi_); }

absl::Status HttpClient::RefreshCredentials() {
  problem_ = absl::OkStatus();
  if (!server_.token_file.empty()) {
    absl::StatusOr<std::string> token = ReadTokenFile(server_.token_file);
    if (!token.ok() && token_.empty()) return token.status();
    problem_ = token.status();
    if (token.ok()) token_ = *std::move(token);
  }
  if (server_.url.scheme != "https") return absl::OkStatus();
  absl::StatusOr<api::TlsMaterial> read = api::ReadTlsFiles(server_.tls_files);
  absl::Status status = read.status();
  if (read.ok()) {
    if (read->certificate.empty()) read->certificate = server_.tls_text.certificate;
    if (read->key.empty()) read->key = server_.tls_text.key;
    if (read->ca.empty()) read->ca = server_.tls_text.ca;
    status = api::CheckTlsMaterial(*read, tls_names_);
  }
  if (status.ok()) {
    tls_ = *std::move(read);
    tls_usable_ = true;
    return status;
  }
  problem_ = status;
  return tls_usable_ ? absl::OkStatus() : status;
}

std::string HttpClient::Authorization() const {
  if (!token_.empty()) return "Bearer " + token_;
  if (server_.username.empty()) return "";
  return "Basic " + absl::Base64Escape(server_.username + ":" + server_.password);
}

std::string HttpClient::Problem() const {
  return problem_.ok() ? "" : absl::StrCat("; in addition, ", std::string(problem_.message()));
}

std::string HttpClient::Name() const {
  const std::string& proxy = server_.proxy.name;
  return absl::StrCat(server_.url.ToString(), proxy.empty() ? "" : " (proxy ", proxy,
                      proxy.empty() ? "" : ")");
}

// Prevents later requests from using the connection of a failed request. libcurl itself would keep
// an HTTP/2 connection after a timeout. If the server has reset only the stream of this request, or
// another request on the connection has received data after the silent one, only the failed request
// gets a new connection. Otherwise, all requests on the connection end and then share a new one.
void HttpClient::LeaveConnection(HttpTransfer& failed, CURLcode code) {
  curl_easy_setopt(failed.easy_.get(), CURLOPT_FORBID_REUSE, 1L);  // Applies to its last request.
  std::vector<HttpTransfer*> others = transfers_;
  const long port = failed.LocalPort();
  std::erase_if(others, [&](const HttpTransfer* other) {
    return port == 0 || !other->busy_ || other->LocalPort() != port;
  });
  failed.fresh_connection_ =
      code == CURLE_HTTP2_STREAM ||
      (code == CURLE_OPERATION_TIMEDOUT &&
       std::any_of(others.begin(), others.end(), [&](const HttpTransfer* other) {
         return other->heard_ && other->last_ > failed.last_;
       }));
  if (failed.fresh_connection_) return;
  for (HttpTransfer* other : others) {
    if (!other->busy_) continue;  // Ended together with another request of `others`.
    absl::SNPrintF(other->error_text_, CURL_ERROR_SIZE, "another request has failed");
    other->End(CURLE_RECV_ERROR);
  }
}

HttpTransfer::HttpTransfer(HttpClient& client) : client_(client), easy_(curl_easy_init()) {
  client_.transfers_.push_back(this);
  CURL* e = easy_.get();
  curl_easy_setopt(e, CURLOPT_PRIVATE, this);
  curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
  // Lets the client end without waiting for a name server.
  curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(e, CURLOPT_ERRORBUFFER, error_text_);
  curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, client_.server_.url.scheme.c_str());
  curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(e, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
  // Waits until the protocol of the first connection is known, instead of opening another one.
  // Without TLS, which HTTP/2 requires, libcurl 7.88 would wait until the first request has ended.
  curl_easy_setopt(e, CURLOPT_PIPEWAIT, client_.server_.url.scheme == "https" ? 1L : 0L);
  curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "gzip");
  curl_easy_setopt(e, CURLOPT_USERAGENT, client_.user_agent_.c_str());
  curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(e, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, OnBytes);
  curl_easy_setopt(e, CURLOPT_WRITEDATA, this);

  curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, kProbeAfterSeconds);
  curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, kProbeEverySeconds);
  curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, SetUpSocket);

  const bool verify = !client_.server_.insecure_skip_tls_verify;
  curl_easy_setopt(e, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
  curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
  // A resumed TLS session would continue to use previous certificates.
  curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
  curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, WatchAlerts);
  curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, &client_.alert_);

  // Empty values disable proxies. Otherwise, libcurl reads environment variables.
  const std::string& proxy = client_.server_.proxy.url;
  curl_easy_setopt(e, CURLOPT_PROXY, proxy.c_str());
  curl_easy_setopt(e, CURLOPT_NOPROXY, "");
  curl_easy_setopt(e, CURLOPT_HTTPPROXYTUNNEL, proxy.empty() ? 0L : 1L);
  curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(e, CURLOPT_CONNECT_TO, client_.connect_to_.get());
}

HttpTransfer::~HttpTransfer() {
  curl_multi_remove_handle(client_.multi_, easy_.get());
  std::erase(client_.transfers_, this);
}

void HttpTransfer::Send(const HttpRequest& request) {
  first_byte_timeout_ = request.first_byte_timeout;
  silence_timeout_ = request.silence_timeout;
  response_ = {};
  heard_ = cancelled_ = false;
  last_ = Clock::now();
  error_text_[0] = '\0';
  client_.alert_ = -1;
  if (const absl::Status status = client_.RefreshCredentials(); !status.ok()) {
    return OnEnd(Annotate(absl::UnauthenticatedError(status.message()), client_.Name()));
  }
  CURL* e = easy_.get();
  // libcurl does not reuse connections that were opened with another CA or client certificate.
  SetBlob(e, CURLOPT_SSLCERT_BLOB, client_.tls_.certificate);
  SetBlob(e, CURLOPT_SSLKEY_BLOB, client_.tls_.key);
  if (!client_.tls_.ca.empty()) {
    SetBlob(e, CURLOPT_CAINFO_BLOB, client_.tls_.ca);
    // Otherwise, the system's CAs would be trusted as well.
    curl_easy_setopt(e, CURLOPT_CAPATH, nullptr);
  }
  headers_.reset();
  AppendTo(headers_, "Accept: " + request.accept);
  curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);  // Removes the body of the previous request.
  curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method != "GET") {
    AppendTo(headers_, "Content-Type: " + request.content_type);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(e, CURLOPT_COPYPOSTFIELDS, request.body.data());
  }
  if (!client_.server_.tls_server_name.empty()) {
    const ServerUrl& url = client_.server_.url;
    AppendTo(headers_, absl::StrCat("Host: ", url.host, ":", url.port));
  }
  if (const std::string authorization = client_.Authorization(); !authorization.empty()) {
    AppendTo(headers_, "Authorization: " + authorization);
  }
  curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers_.get());
  curl_easy_setopt(e, CURLOPT_URL, (client_.base_url_ + request.path).c_str());
  curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, std::exchange(fresh_connection_, false) ? 1L : 0L);
  curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 0L);
  // libcurl divides this time among the addresses of the host.
  curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(first_byte_timeout_.count()));
  curl_multi_add_handle(client_.multi_, e);
  busy_ = true;
}

size_t HttpTransfer::OnHeader(const char*, size_t, size_t bytes, void* transfer) {
  auto* self = static_cast<HttpTransfer*>(transfer);
  self->heard_ = true;
  self->last_ = Clock::now();
  return bytes;
}

size_t HttpTransfer::OnBytes(const char* data, size_t, size_t bytes, void* transfer) {
  auto* self = static_cast<HttpTransfer*>(transfer);
  self->Answer();
  self->cancelled_ = !self->OnBody(self->response_, {data, bytes});
  self->last_ = Clock::now();  // Does not include the time that OnBody took.
  return self->cancelled_ ? 0 : bytes;
}

void HttpTransfer::Answer() {
  if (response_.status != 0) return;
  long status = 0;
  curl_off_t retry_after = 0;
  char* content_type = nullptr;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy_.get(), CURLINFO_CONTENT_TYPE, &content_type);
  curl_easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &retry_after);
  response_ = {.status = static_cast<int>(status),
               .content_type = content_type == nullptr ? "" : content_type,
               .retry_after = std::chrono::seconds(std::max<curl_off_t>(retry_after, 0))};
}

Clock::time_point HttpTransfer::Deadline() const {
  return last_ + (heard_ ? silence_timeout_ : first_byte_timeout_);
}

long HttpTransfer::LocalPort() const {
  long port = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_LOCAL_PORT, &port);
  return port;
}

void HttpTransfer::End(CURLcode code) {
  busy_ = false;
  absl::Status error;
  if (code == CURLE_OK) {
    Answer();  // The body may be empty.
    if (response_.status == 401 && !client_.problem_.ok()) {
      error = Annotate(absl::UnauthenticatedError("API server returned 401" + client_.Problem()),
                       client_.Name());
    }
  }
  if (code != CURLE_OK && !cancelled_) {
    error = Annotate(Explain(code), client_.Name());
    client_.LeaveConnection(*this, code);
  }
  curl_multi_remove_handle(client_.multi_, easy_.get());
  if (cancelled_) return;
  if (error.ok()) return OnEnd(response_);
  OnEnd(error);
}

std::string HttpTransfer::CertificateProblem() const {
  const ApiServer& server = client_.server_;
  const std::string& ca = client_.tls_names_.ca;
  long verified = X509_V_OK;
  curl_easy_getinfo(easy_.get(), CURLINFO_SSL_VERIFYRESULT, &verified);
  const std::string reason = X509_verify_cert_error_string(verified);
  switch (verified) {
    case X509_V_OK:
    // libcurl's initial value. The verification of the chain did not fail, so the name does not
    // match.
    case X509_V_ERR_UNSPECIFIED:
      return absl::StrCat("server certificate is not valid for ",
                          server.tls_server_name.empty() ? server.url.host : server.tls_server_name,
                          "; set tls-server-name to a name in the certificate");
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat("server certificate is not valid at the current time: ", reason,
                          "; renew the certificate or correct the clock");
    default:
      return absl::StrCat("server certificate is not signed by ",
                          ca.empty() ? "a CA that this system trusts" : ca, ": ", reason);
  }
}

absl::Status HttpTransfer::Explain(CURLcode code) const {
  if (code == CURLE_OPERATION_TIMEDOUT) {  // libcurl's own timeout applies only to connecting.
    return absl::DeadlineExceededError(heard_ ? "no data for " + ShowSeconds(silence_timeout_)
                                              : "no response within " +
                                                    ShowSeconds(first_byte_timeout_));
  }
  const std::string more = client_.Problem();
  if (client_.alert_ >= 0) {
    const absl::Status error = AlertError(client_.alert_, client_.tls_names_.certificate);
    return absl::Status(error.code(), absl::StrCat(std::string(error.message()), more));
  }
  const std::string detail = PrintableDetail(error_text_);
  long error = 0;
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
      return absl::UnauthenticatedError(CertificateProblem() + more);
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      return absl::UnauthenticatedError(absl::StrCat("cannot use certificates: ", detail, more));
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return absl::UnavailableError(absl::StrCat("host name resolution failed: ", detail, more));
    case CURLE_COULDNT_CONNECT:
      curl_easy_getinfo(easy_.get(), CURLINFO_OS_ERRNO, &error);
      return absl::UnavailableError(absl::StrCat(
          "connection failed: ", error == 0 ? detail : strerror(static_cast<int>(error)), more));
    case CURLE_SSL_CONNECT_ERROR:
      return absl::UnavailableError(absl::StrCat("TLS handshake failed: ", detail, more));
    default:
      return absl::UnavailableError(
          absl::StrCat("connection lost: ", curl_easy_strerror(code), ": ", detail, more));
  }
}

}  // namespace svcmap::kube
