#include "tests/support/certificates.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "absl/container/flat_hash_set.h"
#include "nft/base/unique_fd.h"

namespace svcmap::testing {
namespace {

constexpr int kNotBeforeSeconds = -7200;

std::string TakeText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string PemOf(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return TakeText(bio);
}

std::string PemOf(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return TakeText(bio);
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) std::abort();
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Creates an X.509 certificate without signature and extensions. Serial numbers are unique in the
// process.
X509* Unsigned(const std::string& name, EVP_PKEY* key, std::chrono::seconds lasts) {
  static std::atomic<long> serial = 0;
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), kNotBeforeSeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate), lasts.count());
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

UniqueFd ConnectTo(uint16_t port, const std::string& source) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience = {10, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in from = {.sin_family = AF_INET};
  inet_pton(AF_INET, source.c_str(), &from.sin_addr);
  bind(fd.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from));
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  return fd;
}

std::string LastReason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "the connection ended" : reason;
}

}  // namespace

bool UsePair(SSL_CTX* context, const KeyPair& pair) {
  BIO* bio = BIO_new_mem_buf(pair.certificate.data(), static_cast<int>(pair.certificate.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  bio = BIO_new_mem_buf(pair.key.data(), static_cast<int>(pair.key.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  const bool used = SSL_CTX_use_certificate(context, certificate) == 1 &&
                    SSL_CTX_use_PrivateKey(context, key) == 1;
  X509_free(certificate);
  EVP_PKEY_free(key);
  return used;
}

CertificateAuthority::CertificateAuthority(const std::string& name)
    : key_(EVP_EC_gen("P-256")), certificate_(Unsigned(name, key_, std::chrono::hours(1))) {
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  AddExtension(certificate_, certificate_, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate_, certificate_, NID_subject_key_identifier, "hash");
  X509_sign(certificate_, key_, EVP_sha256());
  pem_ = PemOf(certificate_);
}

CertificateAuthority::~CertificateAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

KeyPair CertificateAuthority::Issue(const std::string& common_name, const std::string& names,
                                    std::chrono::seconds lasts) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = Unsigned(common_name, key, lasts);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate_));
  AddExtension(certificate, certificate_, NID_authority_key_identifier, "keyid");
  if (!names.empty()) AddExtension(certificate, certificate_, NID_subject_alt_name, names);
  X509_sign(certificate, key_, EVP_sha256());
  KeyPair pair{PemOf(certificate), PemOf(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

TlsProbed ProbeTls(uint16_t port, const TlsProbe& probe) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (probe.max_version != 0) {
    SSL_CTX_set_max_proto_version(context, probe.max_version);
    SSL_CTX_set_min_proto_version(context, 0);
    SSL_CTX_set_security_level(context, 0);  // OpenSSL rejects old TLS versions by default.
  }
  if (!probe.client.certificate.empty()) UsePair(context, probe.client);
  const unsigned char alpn[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context, alpn, sizeof(alpn));

  TlsProbed result;
  const UniqueFd fd = ConnectTo(port, probe.source);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, fd.get());
  ERR_clear_error();
  char first[1];
  // The server answers the HTTP/2 preface and an empty SETTINGS frame. In TLS 1.3, the client's
  // handshake ends before the server has verified the client's certificate, so an alert may follow
  // the handshake.
  constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
  signal(SIGPIPE, SIG_IGN);
  bool accepted = SSL_connect(ssl) == 1;
  if (accepted) {
    SSL_write(ssl, kPreface, sizeof(kPreface));
    ERR_clear_error();
    accepted = SSL_read(ssl, first, sizeof(first)) == 1;
  }
  if (!accepted) result.problem = LastReason();
  if (X509* server = SSL_get1_peer_certificate(ssl); server != nullptr) {
    char name[64] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(server), NID_commonName, name, sizeof(name));
    result.server = name;
    X509_free(server);
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  return result;
}

uint16_t FreeTcpPort() {
  static std::mutex mutex;
  static absl::flat_hash_set<uint16_t> returned;
  const std::lock_guard lock(mutex);
  for (;;) {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
    socklen_t size = sizeof(address);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    const uint16_t port = ntohs(address.sin_port);
    if (returned.insert(port).second) return port;
  }
}

}  // namespace svcmap::testing
