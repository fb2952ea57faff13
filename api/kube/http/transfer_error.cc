// Converts libcurl errors to messages for operators.
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/kube/http/http_client.h"

namespace svcmap::kube {
namespace {

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
