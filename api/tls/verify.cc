#include "api/tls/verify.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "api/tls/tls_files.h"

namespace svcmap::api {
namespace {

using MemoryBio = std::unique_ptr<BIO, decltype(&BIO_free)>;
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
  const MemoryBio bio(BIO_new(BIO_s_mem()), BIO_free);
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  return TextIn(bio.get());
}

// Returns the subject alternative names in the form "DNS:web.example, IP Address:192.0.2.1".
std::string AlternativeNames(const X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  const MemoryBio bio(BIO_new(BIO_s_mem()), BIO_free);
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

void VerifyPeers(SSL_CTX* context, int mode) { SSL_CTX_set_verify(context, mode, OnVerified); }

std::string VerifyProblemOf(const SSL* ssl) {
  const auto* problem = static_cast<const std::string*>(SSL_get_ex_data(ssl, ProblemIndex()));
  return problem == nullptr ? "" : *problem;
}

std::optional<SystemTime> FirstExpiry(const std::string& pem) {
  const MemoryBio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  std::optional<SystemTime> first;
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    const SystemTime expiry = TimeOf(X509_get0_notAfter(certificate));
    first = std::min(first.value_or(expiry), expiry);
    X509_free(certificate);
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
  const time_t seconds = std::chrono::system_clock::to_time_t(time);
  tm fields = {};
  gmtime_r(&seconds, &fields);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &fields);
  return text;
}

}  // namespace svcmap::api
