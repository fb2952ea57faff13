#include "api/tls/tls_files.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/time/time.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxTlsFileBytes = 1024 * 1024;

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

absl::StatusOr<std::string> ReadPem(const std::string& path, const std::string& name) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) return ErrnoStatus(errno, name);
  std::string text;
  for (char block[16384];;) {
    const ssize_t bytes = read(file.get(), block, sizeof(block));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return ErrnoStatus(errno, name);
    if (bytes == 0) return text;
    text.append(block, static_cast<size_t>(bytes));
    if (text.size() > kMaxTlsFileBytes) {
      return absl::InvalidArgumentError(name + ": Too long: must have at most " +
                                        std::to_string(kMaxTlsFileBytes) + " bytes");
    }
  }
}

// Returns an error with `what` and the reason for OpenSSL's latest error. Clears OpenSSL's error
// queue of this thread, because gRPC also reads the queue.
absl::Status TlsProblem(const std::string& what) {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return absl::InvalidArgumentError(reason == nullptr ? what : what + " (" + reason + ")");
}

Bio Open(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Fails for encrypted keys instead of prompting for a passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Status UsePair(SSL_CTX* context, const TlsMaterial& material, const TlsFiles& names) {
  const Bio certificates = Open(material.certificate);
  const Certificate certificate(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  if (!certificate) return TlsProblem(names.certificate + ": contains no PEM certificate");
  if (SSL_CTX_use_certificate(context, certificate.get()) != 1) {
    return TlsProblem(names.certificate + ": certificate rejected by OpenSSL");
  }
  while (Certificate next{PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr)}) {
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) {
      return TlsProblem(names.certificate + ": intermediate certificate rejected by OpenSSL");
    }
  }
  ERR_clear_error();  // Clears the error that OpenSSL reports at the end of a PEM file.
  const Bio key_text = Open(material.key);
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, NoPassphrase, nullptr));
  if (!key) return TlsProblem(names.key + ": contains no unencrypted PEM private key");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return TlsProblem(names.key + ": private key does not match the certificate in " +
                      names.certificate);
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return TlsProblem(names.key + ": private key rejected by OpenSSL");
  }
  return absl::OkStatus();
}

absl::Status UseCa(SSL_CTX* context, const TlsMaterial& material, const TlsFiles& names) {
  const Bio text = Open(material.ca);
  size_t count = 0;
  while (const Certificate ca{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    // Fails only for a certificate that is already in the store.
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca.get());
    SSL_CTX_add_client_CA(context, ca.get());
    ERR_clear_error();
    ++count;
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (count == 0) return TlsProblem(names.ca + ": contains no PEM certificate");
  if (!at_end)
    return TlsProblem(names.ca + ": invalid PEM data after certificate " + std::to_string(count));
  return absl::OkStatus();
}

using SystemTime = std::chrono::system_clock::time_point;

int ProblemIndex() {
  static const int index = SSL_get_ex_new_index(
      0, nullptr, nullptr, nullptr, [](void*, void* problem, CRYPTO_EX_DATA*, int, long, void*) {
        delete static_cast<std::string*>(problem);
      });
  return index;
}

std::string TextIn(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
}

// Returns the name in the form "CN=web,O=shop".
std::string NameText(const X509_NAME* name) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  return TextIn(bio.get());
}

// Returns the subject alternative names in the form "DNS:web.example, IP Address:192.0.2.1".
std::string AlternativeNames(const X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  const Bio bio(BIO_new(BIO_s_mem()));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    if (i > 0) BIO_puts(bio.get(), ", ");
    GENERAL_NAME_print(bio.get(), sk_GENERAL_NAME_value(names, i));
  }
  GENERAL_NAMES_free(names);
  const std::string text = TextIn(bio.get());
  return text.empty() ? "none" : text;
}

SystemTime TimeOf(const ASN1_TIME* time) {
  tm fields = {};
  ASN1_TIME_to_tm(time, &fields);
  return std::chrono::system_clock::from_time_t(timegm(&fields));
}

std::string Describe(X509_STORE_CTX* store) {
  const int error = X509_STORE_CTX_get_error(store);
  const X509* certificate = X509_STORE_CTX_get_current_cert(store);
  const std::string text = X509_verify_cert_error_string(error);
  if (certificate == nullptr) return text;
  const std::string subject = "certificate " + NameText(X509_get_subject_name(certificate));
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return subject + " expired at " + ExpiryText(TimeOf(X509_get0_notAfter(certificate)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return subject + " is not valid before " +
             ExpiryText(TimeOf(X509_get0_notBefore(certificate))) + "; check the clock";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return subject + " is issued by " + NameText(X509_get_issuer_name(certificate)) +
             ", which is not a trusted CA";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return subject + " is self-signed and is not a trusted CA";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return subject + " is for other names: " + AlternativeNames(certificate);
    default:
      return subject + ": " + text;
  }
}

int OnVerified(int ok, X509_STORE_CTX* store) {
  if (ok == 1) return 1;
  auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (ssl != nullptr && SSL_get_ex_data(ssl, ProblemIndex()) == nullptr) {
    SSL_set_ex_data(ssl, ProblemIndex(), new std::string(Describe(store)));
  }
  return 0;
}

}  // namespace

void SslDeleter::operator()(SSL* ssl) const { SSL_free(ssl); }
void SslDeleter::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files, const TlsFiles& names) {
  TlsMaterial material;
  material.server_name = files.server_name;
  for (const auto& [path, name, text] :
       {std::tuple(&files.certificate, &names.certificate, &material.certificate),
        std::tuple(&files.key, &names.key, &material.key),
        std::tuple(&files.ca, &names.ca, &material.ca)}) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> read = ReadPem(*path, *name);
    if (!read.ok()) return read.status();
    *text = *std::move(read);
  }
  return material;
}

absl::Status UseTlsMaterial(SSL_CTX* context, const TlsMaterial& material, const TlsFiles& names) {
  ERR_clear_error();
  absl::Status status;
  if (!names.certificate.empty() || !names.key.empty()) status = UsePair(context, material, names);
  if (status.ok() && !names.ca.empty()) status = UseCa(context, material, names);
  ERR_clear_error();
  return status;
}

absl::Status CheckTlsMaterial(const TlsMaterial& material, const TlsFiles& names) {
  return UseTlsMaterial(SslContext(SSL_CTX_new(TLS_method())).get(), material, names);
}

void VerifyPeers(SSL_CTX* context, int mode) { SSL_CTX_set_verify(context, mode, OnVerified); }

std::string VerifyProblemOf(const SSL* ssl) {
  const auto* problem = static_cast<const std::string*>(SSL_get_ex_data(ssl, ProblemIndex()));
  return problem == nullptr ? "" : *problem;
}

std::optional<SystemTime> FirstExpiry(const std::string& pem) {
  const Bio bio = Open(pem);
  std::optional<SystemTime> first;
  while (const Certificate certificate{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    const SystemTime expiry = TimeOf(X509_get0_notAfter(certificate.get()));
    first = std::min(first.value_or(expiry), expiry);
  }
  ERR_clear_error();  // OpenSSL reports an error at the end of the text.
  return first;
}

std::vector<CertificateExpiry> ReadExpiries(
    const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<CertificateExpiry> expiries;
  for (const auto& [name, path] : files) {
    const absl::StatusOr<TlsMaterial> read =
        ReadTlsFiles({.certificate = path, .key = "", .ca = ""});
    if (!read.ok()) continue;
    if (const auto first = FirstExpiry(read->certificate)) expiries.push_back({name, *first});
  }
  return expiries;
}

std::string ExpiryText(SystemTime time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

}  // namespace svcmap::api
