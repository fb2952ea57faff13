// Names the reason if the certificate of a peer cannot be verified, and reads expiry times. OpenSSL
// itself reports only "certificate verify failed".
#pragma once

#include <openssl/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace svcmap::api {

// Verifies certificates of peers with the `mode` of SSL_CTX_set_verify(), and keeps the reason for
// a failure for VerifyProblemOf().
void VerifyPeers(SSL_CTX* context, int mode);

// Returns the reason why the peer's certificate was rejected, such as "certificate CN=web expired
// at 2026-11-27T08:00:00Z", or "" if it was not rejected. The text can contain any characters.
std::string VerifyProblemOf(const SSL* ssl);

// Returns the time at which the first of the PEM certificates in `pem` expires, or nullopt if `pem`
// contains no certificate.
std::optional<std::chrono::system_clock::time_point> FirstExpiry(const std::string& pem);

// The certificates of a file.
struct CertificateExpiry {
  std::string name;  // Name of the flag or field with the path, such as "tls-cert".
  std::chrono::system_clock::time_point first;
};

// Reads the files. Each item of `files` is a name and a path. Skips empty paths and files without
// certificates.
std::vector<CertificateExpiry> ReadExpiries(
    const std::vector<std::pair<std::string, std::string>>& files);

// Returns the time as "2026-11-27T08:00:00Z".
std::string ExpiryText(std::chrono::system_clock::time_point time);

}  // namespace svcmap::api
