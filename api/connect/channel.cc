#include "api/connect/channel.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <algorithm>
#include <memory>
#include <string_view>
#include "api/tls/tls_files.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

constexpr timeval kTimeout = {.tv_sec = 2, .tv_usec = 0};

UniqueFd Connect(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return UniqueFd();
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return fd;
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) return UniqueFd();
  return fd;
}

// Explains the alert with which the agent has closed the connection.
std::string AlertText(std::string_view reason, const TlsMaterial& tls) {
  if (tls.certificate.empty()) {
    const bool required = reason.ends_with("alert certificate required") ||
                          reason.ends_with("alert handshake failure");
    return required ? "the agent requires a client certificate, see --tls-cert" : "";
  }
  if (reason.ends_with("alert certificate expired")) {
    const auto expiry = FirstExpiry(tls.certificate);
    return "the agent rejected the client certificate, which expired at " +
           (expiry ? ExpiryText(*expiry) : "an unknown time");
  }
  if (reason.ends_with("alert unknown ca")) {
    return "the agent rejected the client certificate, because no CA in the agent's "
           "--tls-client-ca has signed it";
  }
  const size_t alert = reason.find("alert ");
  if (alert == std::string_view::npos) return "";
  return "the agent closed the connection with the TLS " + std::string(reason.substr(alert));
}

std::string ProblemOf(SSL* ssl, const TlsMaterial& tls) {
  if (SSL_connect(ssl) == 1) {
    // With TLS 1.3, the agent verifies the client's certificate after the client's handshake.
    char byte = 0;
    if (SSL_read(ssl, &byte, 1) > 0) return "";
  }
  if (const std::string problem = VerifyProblemOf(ssl); !problem.empty()) {
    return "the agent's certificate is rejected: " + problem;
  }
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "" : AlertText(reason, tls);
}

// Connects to `target` ("dns:///HOST:PORT") with TLS. Returns the reason if the certificate of the
// agent or of this client is rejected, and otherwise "". Blocks for at most a few seconds. gRPC
// itself reports only "certificate verify failed" or a closed connection.
std::string ProbeTls(const std::string& target, const TlsMaterial& tls) {
  constexpr std::string_view kPrefix = "dns:///";
  if (!target.starts_with(kPrefix)) return "";
  const size_t colon = target.rfind(':');
  std::string host = target.substr(kPrefix.size(), colon - kPrefix.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const UniqueFd fd = Connect(host, target.substr(colon + 1));
  if (!fd.ok()) return "";
  if (!tls.server_name.empty()) host = tls.server_name;
  ERR_clear_error();
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  // Any name marks a file that exists. Errors would contain the names, so these are not the
  // contents.
  const auto name = [](const std::string& pem) { return std::string(pem.empty() ? "" : "-"); };
  UseTlsMaterial(context.get(), tls, {name(tls.certificate), name(tls.key), name(tls.ca)})
      .IgnoreError();
  VerifyPeers(context.get(), SSL_VERIFY_PEER);
  ERR_clear_error();
  const SslConnection ssl(SSL_new(context.get()));
  X509_VERIFY_PARAM* verify = SSL_get0_param(ssl.get());
  if (X509_VERIFY_PARAM_set1_ip_asc(verify, host.c_str()) != 1) {
    X509_VERIFY_PARAM_set1_host(verify, host.c_str(), host.size());
    SSL_set_tlsext_host_name(ssl.get(), host.c_str());
  }
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), kHttp2, sizeof(kHttp2));
  SSL_set_fd(ssl.get(), fd.get());
  const std::string problem = ProblemOf(ssl.get(), tls);
  ERR_clear_error();
  return problem;
}

// Extracts "No such file or directory" from "failed to connect to all addresses; last error:
// UNKNOWN: unix:/x.sock: No such file or directory".
std::string ConnectProblem(const std::string& message) {
  constexpr std::string_view kLast = "last error: ";
  const size_t last = message.find(kLast);
  if (last == std::string::npos) return message;
  const size_t colon = message.rfind(": ");
  return message.substr(std::max(colon + 2, last + kLast.size()));
}

}  // namespace

std::shared_ptr<grpc::Channel> NewChannel(const std::string& target, const TlsMaterial& tls,
                                          grpc::ChannelArguments arguments) {
  // The message size is unlimited, because an Ack may contain a result for each object.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // Ignores $http_proxy.
  // Prevents the channel from sharing connections with other channels.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!tls.server_name.empty()) arguments.SetSslTargetNameOverride(tls.server_name);
  return grpc::CreateCustomChannel(target,
                                   tls.ca.empty()
                                       ? grpc::InsecureChannelCredentials()
                                       : grpc::SslCredentials({tls.ca, tls.key, tls.certificate}),
                                   arguments);
}

// gRPC reports only a closed connection when the agent rejects a client, so the returned text lists
// possible reasons.
std::string ConnectAdvice(const std::string& message, const std::string& target,
                          const TlsMaterial& tls) {
  const std::string problem = ConnectProblem(message);
  if (!tls.ca.empty()) {
    if (std::string reason = ProbeTls(target, tls); !reason.empty()) return reason;
  }
  if (problem.ends_with("certificate verify failed")) {
    return "the agent's certificate is not signed by a CA in --tls-ca, or is not currently valid";
  }
  // gRPC reports "Endpoint read failed" after a TLS alert, and "recvmsg:Connection reset by peer"
  // without TLS.
  if (problem != "Socket closed" && problem != "Endpoint read failed" &&
      !problem.ends_with("Connection reset by peer")) {
    return problem;
  }
  return std::string("the agent closed the connection: ") +
         (target.starts_with("unix:") ? "this user may not be authorized"
          : tls.ca.empty()            ? "the agent may require TLS, see --tls-ca"
          : tls.certificate.empty()
              ? "the agent may require a client certificate, see --tls-cert"
              : "the agent may reject this client certificate or may not use TLS");
}

std::string CodeName(grpc::StatusCode code) {
  // gRPC and absl use the same numbers for status codes.
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

}  // namespace svcmap::api
