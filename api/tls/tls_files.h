// Reads and checks certificates and keys in PEM files, and verifies the certificates of peers. gRPC
// does not report the reason if a file cannot be used, and OpenSSL reports only "certificate verify
// failed". So svcmapd, svcmapctl and svcmap-kube check the files and certificates themselves.
#pragma once

#include <openssl/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::api {

struct SslDeleter {
  void operator()(SSL* ssl) const;
  void operator()(SSL_CTX* context) const;
};
using SslConnection = std::unique_ptr<SSL, SslDeleter>;
using SslContext = std::unique_ptr<SSL_CTX, SslDeleter>;

// Paths of PEM files. `certificate` contains this program's certificate and intermediate
// certificates. `key` contains the private key of this program. `ca` contains the certificates of
// the CAs that sign the peer's certificate. `server_name` is not a path: a client requires this
// name in the certificate of the server. If it is empty, the certificate must contain the host of
// the address.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string ca;
  std::string server_name = {};
};

// Contents of the files in TlsFiles, and the name.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string ca;
  std::string server_name = {};
  bool operator==(const TlsMaterial&) const = default;
};

// Reads the files. Skips empty paths. The error starts with the name of the file in `names`.
absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files, const TlsFiles& names);

// Uses the paths as names.
inline absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files) {
  return ReadTlsFiles(files, files);
}

// Adds the certificates, the key and the trusted CAs to `context`. Checks that all contents are
// PEM, and that the key is unencrypted and matches the certificate. Skips contents without a name
// in `names`. Error messages contain the names.
absl::Status UseTlsMaterial(SSL_CTX* context, const TlsMaterial& material, const TlsFiles& names);

// Makes the same checks as UseTlsMaterial.
absl::Status CheckTlsMaterial(const TlsMaterial& material, const TlsFiles& names);

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
