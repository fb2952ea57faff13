#include "api/screen/tls_server.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "api/log/log_value.h"
#include "api/tls/tls_files.h"

namespace svcmap::api {
namespace {

// Selects HTTP/2 with ALPN, because gRPC 1.51 requires that the client negotiates HTTP/2.
int SelectHttp2(SSL*, const unsigned char** selected, unsigned char* selected_length,
                const unsigned char* offered, unsigned int offered_length, void*) {
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  unsigned char* out = nullptr;
  if (SSL_select_next_proto(&out, selected_length, kHttp2, sizeof(kHttp2), offered,
                            offered_length) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *selected = out;
  return SSL_TLSEXT_ERR_OK;
}

std::string TextOf(const ASN1_STRING* value) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
          static_cast<size_t>(ASN1_STRING_length(value))};
}

std::string AddressText(const ASN1_OCTET_STRING* value) {
  char text[INET6_ADDRSTRLEN] = {};
  const int length = ASN1_STRING_length(value);
  if (length != 4 && length != 16) return "";
  const char* written =
      inet_ntop(length == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(value), text, sizeof(text));
  return written == nullptr ? "" : written;
}

// svcmapd starts with an expired certificate, because the file can be replaced later.
void WarnOfExpired(const std::string& file, const std::string& pem) {
  const auto expiry = FirstExpiry(pem);
  if (!expiry || *expiry > std::chrono::system_clock::now()) return;
  spdlog::warn("TLS certificate expired, handshakes that need it will fail file={} expired={}",
               LogValue(file), ExpiryText(*expiry));
}

}  // namespace

std::string TakeSslError() {
  const unsigned long error = ERR_peek_last_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return reason == nullptr ? "connection closed" : reason;
}

absl::StatusOr<std::unique_ptr<TlsServer>> TlsServer::Load(const TlsFiles& files,
                                                           const TlsFiles& names) {
  absl::StatusOr<TlsMaterial> material = ReadTlsFiles(files, names);
  if (!material.ok()) return material.status();
  std::unique_ptr<TlsServer> server(new TlsServer(files, names));
  if (absl::Status status = server->Use(*std::move(material)); !status.ok()) return status;
  return server;
}

absl::Status TlsServer::Use(TlsMaterial material) {
  SslContext context(SSL_CTX_new(TLS_server_method()));
  if (absl::Status bad = UseTlsMaterial(context.get(), material, names_); !bad.ok()) return bad;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20");
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                         SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // Without SSL_MODE_AUTO_RETRY, SSL_read() returns after each record, even if the record has no
  // data.
  SSL_CTX_clear_mode(context.get(), SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  VerifyPeers(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
  SSL_CTX_set_alpn_select_cb(context.get(), SelectHttp2, nullptr);
  context_ = std::move(context);
  material_ = std::move(material);
  WarnOfExpired(files_.certificate, material_.certificate);
  WarnOfExpired(files_.ca, material_.ca);
  return absl::OkStatus();
}

void TlsServer::Reload() {
  absl::StatusOr<TlsMaterial> read = ReadTlsFiles(files_, names_);
  absl::Status status = read.status();
  if (status.ok()) {
    if (*read == material_) {
      problem_.clear();
      return;
    }
    if (*read == bad_) return;
    const TlsMaterial material = *read;
    status = Use(*std::move(read));
    if (!status.ok()) bad_ = material;
  }
  if (status.ok()) {
    problem_.clear();
    spdlog::info("TLS files reloaded for new connections cert={} key={} client_ca={}",
                 LogValue(files_.certificate), LogValue(files_.key), LogValue(files_.ca));
    return;
  }
  const std::string problem(status.message());
  if (problem != problem_) {
    spdlog::error(
        "changed TLS files rejected, new connections use the previous certificates error={}",
        LogValue(problem));
  }
  problem_ = problem;
}

SslConnection TlsServer::Accept(int fd) {
  Reload();
  ERR_clear_error();
  SslConnection ssl(SSL_new(context_.get()));
  if (!ssl || SSL_set_fd(ssl.get(), fd) != 1) return nullptr;
  SSL_set_accept_state(ssl.get());
  return ssl;
}

CertificateNames NamesOf(SSL* ssl) {
  CertificateNames names;
  X509* certificate = SSL_get1_peer_certificate(ssl);
  auto* list = static_cast<GENERAL_NAMES*>(
      certificate == nullptr
          ? nullptr
          : X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; list != nullptr && i < sk_GENERAL_NAME_num(list); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list, i);
    switch (name->type) {
      case GEN_URI:
        names.uris.push_back(TextOf(name->d.uniformResourceIdentifier));
        break;
      case GEN_DNS:
        names.dns.push_back(TextOf(name->d.dNSName));
        break;
      case GEN_IPADD:
        if (std::string text = AddressText(name->d.iPAddress); !text.empty()) {
          names.ips.push_back(std::move(text));
        }
        break;
      default:
        break;
    }
  }
  GENERAL_NAMES_free(list);
  X509_free(certificate);
  ERR_clear_error();
  return names;
}

}  // namespace svcmap::api
