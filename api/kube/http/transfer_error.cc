#include "api/kube/http/transfer_error.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace svcmap::kube {
namespace {

// libcurl's words may hold the server's.
std::string Printable(std::string text) {
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

std::string AuthorityOf(const TransferFailure& failure) {
  return failure.names.ca.empty() ? "a certificate authority that this system trusts"
                                  : failure.names.ca;
}

std::string CertificateProblem(const TransferFailure& failure) {
  long verified = X509_V_OK;
  curl_easy_getinfo(failure.easy, CURLINFO_SSL_VERIFYRESULT, &verified);
  const std::string reason = X509_verify_cert_error_string(verified);
  switch (verified) {
    case X509_V_OK:
    case X509_V_ERR_UNSPECIFIED:  // What libcurl begins with: the chain was not what it minded.
      return absl::StrCat("its certificate is not made out to ", failure.verified_name,
                          "; tls-server-name can name one that it is made out to");
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat("its certificate does not count today: ", reason,
                          "; renew it, or set the clock");
    default:
      return absl::StrCat("its certificate is not signed by ", AuthorityOf(failure), ": ", reason);
  }
}

absl::Status AlertError(const TransferFailure& failure) {
  const std::string what = absl::StrCat(
      "it ends TLS with the alert \"", SSL_alert_desc_string_long(failure.alert), "\"; ",
      failure.names.certificate.empty() ? "we have no client certificate"
                                        : "ours is " + failure.names.certificate);
  // Servers that have no certificate yet say that they are at fault.
  return failure.alert == SSL_AD_INTERNAL_ERROR ? absl::UnavailableError(what)
                                                : absl::UnauthenticatedError(what);
}

}  // namespace

absl::Status TransferError(const TransferFailure& failure) {
  if (failure.alert >= 0) return AlertError(failure);
  const std::string detail = failure.detail.empty() ? "no details" : Printable(failure.detail);
  long error = 0;
  switch (failure.code) {
    case CURLE_PEER_FAILED_VERIFICATION:
      return absl::UnauthenticatedError(CertificateProblem(failure));
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      return absl::UnauthenticatedError(absl::StrCat("certificates cannot be used (", detail, ")"));
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(absl::StrCat("no answer in time (", detail, ")"));
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return absl::UnavailableError(absl::StrCat("the name has no address (", detail, ")"));
    case CURLE_COULDNT_CONNECT:
      curl_easy_getinfo(failure.easy, CURLINFO_OS_ERRNO, &error);
      return absl::UnavailableError(
          absl::StrCat("no connection: ", error == 0 ? detail : strerror(static_cast<int>(error))));
    case CURLE_SSL_CONNECT_ERROR:
      return absl::UnavailableError(absl::StrCat("no TLS with it (", detail, ")"));
    default:
      return absl::UnavailableError(absl::StrCat(
          "the connection broke (", curl_easy_strerror(failure.code), ": ", detail, ")"));
  }
}

}  // namespace svcmap::kube
