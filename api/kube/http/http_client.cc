#include "api/kube/http/http_client.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/kube/http/bearer_token.h"
#include "api/kube/http/server_url.h"
#include "api/kube/http/tls_source.h"
#include "api/kube/http/transfer_error.h"
#include "nft/base/status.h"

namespace svcmap::kube {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kMaxHeaderBytes = 64 * 1024;  // Of all headers of one response.

// The kernel detects dead peers: it sends the first keepalive probe after 30 s without traffic, and
// closes the connection after 45 s without an acknowledgement. The same limit applies to sent data.
constexpr long kProbeAfterSeconds = 30;
constexpr long kProbeEverySeconds = 5;
constexpr unsigned kUnansweredMilliseconds = 45000;

int NoticeDeadPeer(void*, curl_socket_t fd, curlsocktype) {
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnansweredMilliseconds,
             sizeof(kUnansweredMilliseconds));
  return CURL_SOCKOPT_OK;
}

void SetBlob(CURL* easy, CURLoption option, const std::string& pem) {
  curl_blob blob = {const_cast<char*>(pem.data()), pem.size(), CURL_BLOB_COPY};
  curl_easy_setopt(easy, option, pem.empty() ? nullptr : &blob);
}

// A client has only one request at a time, so the alert belongs to the current request.
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

std::string ShowSeconds(milliseconds time) {
  return absl::StrFormat("%g s", static_cast<double>(time.count()) / 1000);
}

}  // namespace

struct HttpClient::Impl {
  struct FreeCurl {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  using CurlList = std::unique_ptr<curl_slist, FreeCurl>;
  static void AppendTo(CurlList& list, const std::string& line) {
    list.reset(curl_slist_append(list.release(), line.c_str()));
  }

  Impl(ApiServer its_server, ServerUrl its_url)
      : server(std::move(its_server)),
        url(std::move(its_url)),
        tls(server),
        token(server.token, server.token_file) {}
  ~Impl() {
    easy.reset();
    curl_multi_cleanup(multi);
  }

  // One request and its response.
  struct Exchange {
    Impl& client;
    OnBody on_body;
    bool may_renew;  // After a 401, read the token file again and retry if the token has changed.
    HttpResponse response = {};
    bool heard = false;     // Data of the response has arrived.
    bool answered = false;  // `response` is filled.
    bool renewed = false;   // The request must be sent again with a new token.
    size_t header_bytes = 0;
    Clock::time_point last = Clock::now();  // When the request was sent, or when data last arrived.
    // Error of on_body or of the headers. Does not need the server's name as a prefix.
    absl::Status error = {};

    // Callbacks of libcurl. libcurl aborts the request if the result is not `bytes`.
    static size_t OnHeader(const char*, size_t, size_t bytes, void* exchange);
    static size_t OnBytes(const char* data, size_t, size_t bytes, void* exchange);

    bool CountHeader(size_t bytes);
    bool Deliver(std::string_view bytes);
    void Answer();
    absl::Status Timeout(const HttpRequest& request) const;
    milliseconds TimeLeft(const HttpRequest& request) const;
  };

  absl::Status SetUp(const std::string& user_agent);
  absl::Status Prepare(const HttpRequest& request);
  void UseMaterial();
  std::string Authorization() const;
  absl::Status Transfer(const HttpRequest& request, Exchange& exchange);
  absl::Status Run(const HttpRequest& request, Exchange& exchange);
  absl::Status Explain(CURLcode code, const Exchange& exchange);
  std::string Name() const;

  const ApiServer server;
  const ServerUrl url;
  std::string base_url;  // Its host is the name that TLS verifies.
  std::string proxy_name;
  TlsSource tls;
  BearerToken token;

  std::atomic<bool> stopped = false;
  CURLM* multi = nullptr;
  std::unique_ptr<CURL, FreeCurl> easy;
  CurlList connect_to;
  CurlList headers;
  // The existing connection uses previous certificates or does not respond. libcurl would reuse an
  // HTTP/2 connection even after the failed request.
  bool fresh_connection = false;
  char error_text[CURL_ERROR_SIZE] = {};
  int alert = -1;  // Fatal alert from the server, or -1.
};

size_t HttpClient::Impl::Exchange::OnHeader(const char*, size_t, size_t bytes, void* exchange) {
  return static_cast<Exchange*>(exchange)->CountHeader(bytes) ? bytes : 0;
}

size_t HttpClient::Impl::Exchange::OnBytes(const char* data, size_t, size_t bytes, void* exchange) {
  return static_cast<Exchange*>(exchange)->Deliver({data, bytes}) ? bytes : 0;
}

bool HttpClient::Impl::Exchange::CountHeader(size_t bytes) {
  heard = true;
  last = Clock::now();
  header_bytes += bytes;
  if (header_bytes <= kMaxHeaderBytes) return true;
  error = absl::UnavailableError(absl::StrCat(client.Name(),
                                              ": Too long: the response headers must have at most ",
                                              kMaxHeaderBytes, " bytes"));
  return false;
}

bool HttpClient::Impl::Exchange::Deliver(std::string_view bytes) {
  Answer();
  if (renewed) return false;  // The body of this 401 is not needed.
  error = on_body(response, bytes);
  last = Clock::now();  // Does not include the time that on_body took.
  return error.ok();
}

void HttpClient::Impl::Exchange::Answer() {
  if (std::exchange(answered, true)) return;
  long status = 0;
  curl_off_t retry_after = 0;
  char* content_type = nullptr;
  CURL* easy = client.easy.get();
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &content_type);
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after);
  response = {.status = static_cast<int>(status),
              .content_type = content_type == nullptr ? "" : content_type,
              .retry_after = std::chrono::seconds(std::max<curl_off_t>(retry_after, 0))};
  renewed = status == 401 && may_renew && client.token.Renew(Clock::now());
}

milliseconds HttpClient::Impl::Exchange::TimeLeft(const HttpRequest& request) const {
  const milliseconds timeout = heard ? request.silence_timeout : request.first_byte_timeout;
  return std::chrono::ceil<milliseconds>(last + timeout - Clock::now());
}

absl::Status HttpClient::Impl::Exchange::Timeout(const HttpRequest& request) const {
  return absl::DeadlineExceededError(
      heard ? absl::StrCat("no data for ", ShowSeconds(request.silence_timeout))
            : absl::StrCat("no response within ", ShowSeconds(request.first_byte_timeout)));
}

absl::Status HttpClient::Impl::SetUp(const std::string& user_agent) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  multi = curl_multi_init();
  easy.reset(curl_easy_init());
  if (multi == nullptr || easy == nullptr)
    return absl::InternalError("libcurl initialization failed");
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 1L);

  CURL* e = easy.get();
  curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
  // Lets Stop return without waiting for a name server.
  curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(e, CURLOPT_ERRORBUFFER, error_text);
  curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, url.scheme.c_str());
  curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(e, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
  curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "gzip");
  curl_easy_setopt(e, CURLOPT_USERAGENT, user_agent.c_str());
  curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, Exchange::OnHeader);
  curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, Exchange::OnBytes);

  curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, kProbeAfterSeconds);
  curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, kProbeEverySeconds);
  curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, NoticeDeadPeer);

  curl_easy_setopt(e, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, server.insecure_skip_tls_verify ? 0L : 1L);
  curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, server.insecure_skip_tls_verify ? 0L : 2L);
  // A resumed TLS session would continue to use previous certificates.
  curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
  curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, WatchAlerts);
  curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, &alert);

  // Empty values disable proxies. Otherwise, libcurl reads environment variables.
  curl_easy_setopt(e, CURLOPT_PROXY, "");
  curl_easy_setopt(e, CURLOPT_NOPROXY, "");
  if (!server.proxy_url.empty()) {
    const absl::StatusOr<std::string> proxy = ParseProxyUrl(server.proxy_url);
    if (!proxy.ok()) return Annotate(proxy.status(), "proxy-url");
    proxy_name = *proxy;
    // The proxy resolves host names, as with kubectl.
    constexpr std::string_view kSocks = "socks5:";
    std::string proxy_url = server.proxy_url;
    if (proxy_url.starts_with(kSocks)) proxy_url.replace(0, kSocks.size(), "socks5h:");
    curl_easy_setopt(e, CURLOPT_PROXY, proxy_url.c_str());
    curl_easy_setopt(e, CURLOPT_HTTPPROXYTUNNEL, 1L);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  }

  base_url = url.ToString();
  if (!server.tls_server_name.empty()) {
    // The URL contains the name that TLS verifies. CURLOPT_CONNECT_TO contains the real host.
    const bool ipv6 = server.tls_server_name.find(':') != std::string::npos;
    ServerUrl named = url;
    named.host = ipv6 ? "[" + server.tls_server_name + "]" : server.tls_server_name;
    const absl::StatusOr<ServerUrl> parsed = ParseServerUrl(named.ToString());
    if (!parsed.ok()) return Annotate(parsed.status(), "tls-server-name");
    base_url = parsed->ToString();
    AppendTo(connect_to, absl::StrCat("::", url.host, ":", url.port));
    curl_easy_setopt(e, CURLOPT_CONNECT_TO, connect_to.get());
  }
  return absl::OkStatus();
}

std::string HttpClient::Impl::Name() const {
  return proxy_name.empty() ? url.ToString()
                            : absl::StrCat(url.ToString(), " (proxy ", proxy_name, ")");
}

std::string HttpClient::Impl::Authorization() const {
  if (!token.text().empty()) return "Bearer " + token.text();
  if (server.username.empty()) return "";
  return "Basic " + absl::Base64Escape(server.username + ":" + server.password);
}

void HttpClient::Impl::UseMaterial() {
  CURL* e = easy.get();
  SetBlob(e, CURLOPT_SSLCERT_BLOB, tls.material().certificate);
  SetBlob(e, CURLOPT_SSLKEY_BLOB, tls.material().key);
  if (tls.material().ca.empty()) return;  // Use the system's CAs.
  SetBlob(e, CURLOPT_CAINFO_BLOB, tls.material().ca);
  // Otherwise, the system's CAs would be trusted as well.
  curl_easy_setopt(e, CURLOPT_CAPATH, nullptr);
}

absl::Status HttpClient::Impl::Prepare(const HttpRequest& request) {
  if (url.scheme == "https") {
    const bool first = tls.material() == api::TlsMaterial();
    const absl::StatusOr<bool> changed = tls.Refresh();
    if (!changed.ok()) return absl::UnauthenticatedError(changed.status().message());
    if (first || *changed) UseMaterial();
    fresh_connection |= *changed;
  }
  if (const absl::Status status = token.Refresh(Clock::now()); !status.ok()) {
    return absl::UnauthenticatedError(status.message());
  }

  CURL* e = easy.get();
  headers.reset();
  AppendTo(headers, "Accept: " + request.accept);
  if (!server.tls_server_name.empty()) {
    AppendTo(headers, absl::StrCat("Host: ", url.host, ":", url.port));
  }
  if (const std::string authorization = Authorization(); !authorization.empty()) {
    AppendTo(headers, "Authorization: " + authorization);
  }
  curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(e, CURLOPT_URL, (base_url + request.path).c_str());
  curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, fresh_connection ? 1L : 0L);
  // libcurl divides this time among the addresses of the host.
  curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(request.first_byte_timeout.count()));
  return absl::OkStatus();
}

absl::Status HttpClient::Impl::Run(const HttpRequest& request, Exchange& exchange) {
  while (true) {
    int running = 0;
    curl_multi_perform(multi, &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      // libcurl's own timeout applies only to connecting.
      return code == CURLE_OPERATION_TIMEDOUT ? exchange.Timeout(request) : Explain(code, exchange);
    }
    if (stopped) return absl::CancelledError("stopped");
    const int64_t left_ms = exchange.TimeLeft(request).count();
    if (left_ms <= 0) return exchange.Timeout(request);
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(std::min<int64_t>(left_ms, 60'000)),
                    nullptr);
  }
}

absl::Status HttpClient::Impl::Explain(CURLcode code, const Exchange& exchange) {
  if (code == CURLE_OK || exchange.renewed || !exchange.error.ok()) return exchange.error;
  const std::string& name = server.tls_server_name;
  const absl::Status status = TransferError({.code = code,
                                             .easy = easy.get(),
                                             .detail = error_text,
                                             .alert = alert,
                                             .verified_name = name.empty() ? url.host : name,
                                             .names = tls.names()});
  return tls.problem().ok()
             ? status
             : absl::Status(status.code(),
                            absl::StrCat(std::string(status.message()), "; in addition, ",
                                         std::string(tls.problem().message())));
}

absl::Status HttpClient::Impl::Transfer(const HttpRequest& request, Exchange& exchange) {
  CURL* e = easy.get();
  alert = -1;
  error_text[0] = '\0';
  curl_easy_setopt(e, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(e, CURLOPT_WRITEDATA, &exchange);
  if (curl_multi_add_handle(multi, e) != CURLM_OK) {
    return absl::InternalError("libcurl rejected the request");
  }
  const absl::Status status = Run(request, exchange);
  if (status.ok()) {
    fresh_connection = false;  // The new connection is used for the next request.
    exchange.Answer();
  } else if (exchange.error.ok()) {
    fresh_connection = true;
  }
  curl_multi_remove_handle(multi, e);
  return status;
}

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(ApiServer server,
                                                               std::string user_agent) {
  absl::StatusOr<ServerUrl> url = ParseServerUrl(server.url);
  if (!url.ok()) return Annotate(url.status(), "server");
  auto impl = std::make_unique<Impl>(std::move(server), *std::move(url));
  if (absl::Status status = impl->SetUp(user_agent); !status.ok()) return status;
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(impl)));
}

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::~HttpClient() = default;

absl::StatusOr<HttpResponse> HttpClient::Get(const HttpRequest& request, OnBody on_body) {
  for (bool first = true;; first = false) {
    absl::Status status =
        impl_->stopped ? absl::CancelledError("stopped") : impl_->Prepare(request);
    if (!status.ok()) return Annotate(status, impl_->Name());
    Impl::Exchange exchange = {.client = *impl_, .on_body = on_body, .may_renew = first};
    status = impl_->Transfer(request, exchange);
    if (exchange.renewed) continue;
    if (status.ok()) return exchange.response;
    return exchange.error.ok() ? Annotate(status, impl_->Name()) : exchange.error;
  }
}

void HttpClient::Stop() {
  impl_->stopped = true;
  curl_multi_wakeup(impl_->multi);
}

}  // namespace svcmap::kube
