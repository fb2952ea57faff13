#include "api/kube/http/transfer_error.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace svcmap::kube {
namespace {

// Replaces unprintable characters, because libcurl's text may contain data from the server.
std::string PrintableDetail(std::string text) {
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

std::string AuthorityOf(const TransferFailure& failure) {
  return failure.names.ca.empty() ? "a CA that this system trusts" : failure.names.ca;
}

std::string CertificateProblem(const TransferFailure& failure) {
  long verified = X509_V_OK;
  curl_easy_getinfo(failure.easy, CURLINFO_SSL_VERIFYRESULT, &verified);
  const std::string reason = X509_verify_cert_error_string(verified);
  switch (verified) {
    case X509_V_OK:
    // libcurl's initial value. The verification of the chain did not fail, so the name does not
    // match.
    case X509_V_ERR_UNSPECIFIED:
      return absl::StrCat("server certificate is not valid for ", failure.verified_name,
                          "; set tls-server-name to a name in the certificate");
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat("server certificate is not valid at the current time: ", reason,
                          "; renew the certificate or correct the clock");
    default:
      return absl::StrCat("server certificate is not signed by ", AuthorityOf(failure), ": ",
                          reason);
  }
}

absl::Status AlertError(const TransferFailure& failure) {
  const std::string what = absl::StrCat(
      "server closed the TLS connection with the alert \"",
      SSL_alert_desc_string_long(failure.alert), "\"; ",
      failure.names.certificate.empty() ? "no client certificate is configured"
                                        : "the client certificate is " + failure.names.certificate);
  // An API server that has no certificate yet sends internal_error.
  return failure.alert == SSL_AD_INTERNAL_ERROR ? absl::UnavailableError(what)
                                                : absl::UnauthenticatedError(what);
}

}  // namespace

absl::Status TransferError(const TransferFailure& failure) {
  if (failure.alert >= 0) return AlertError(failure);
  const std::string detail =
      failure.detail.empty() ? "no details available" : PrintableDetail(failure.detail);
  long error = 0;
  switch (failure.code) {
    case CURLE_PEER_FAILED_VERIFICATION:
      return absl::UnauthenticatedError(CertificateProblem(failure));
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      return absl::UnauthenticatedError(absl::StrCat("cannot use certificates: ", detail));
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return absl::UnavailableError(absl::StrCat("host name resolution failed: ", detail));
    case CURLE_COULDNT_CONNECT:
      curl_easy_getinfo(failure.easy, CURLINFO_OS_ERRNO, &error);
      return absl::UnavailableError(absl::StrCat(
          "connection failed: ", error == 0 ? detail : strerror(static_cast<int>(error))));
    case CURLE_SSL_CONNECT_ERROR:
      return absl::UnavailableError(absl::StrCat("TLS handshake failed: ", detail));
    default:
      return absl::UnavailableError(
          absl::StrCat("connection lost: ", curl_easy_strerror(failure.code), ": ", detail));
  }
}

}  // namespace svcmap::kube
