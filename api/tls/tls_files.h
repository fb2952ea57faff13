// Reads and checks certificates and keys in PEM files. gRPC does not report the reason if a file
// cannot be used, so svcmapd, svcmapctl and svcmap-kube check the files themselves.
#pragma once

#include <openssl/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::api {

// Paths of PEM files. `certificate` contains this program's certificate and intermediate
// certificates. `key` contains the private key of this program. `ca` contains the certificates of
// the CAs that sign the peer's certificate.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string ca;
};

// Contents of the files in TlsFiles.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string ca;
  bool operator==(const TlsMaterial&) const = default;
};

// Reads the files. Skips empty paths. The error names the file.
absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files);

// Adds the certificates, the key and the trusted CAs to `context`. Checks that all contents are
// PEM, and that the key is unencrypted and matches the certificate. Skips contents without a path in
// `files`. Error messages contain the paths from `files`.
absl::Status UseTlsMaterial(SSL_CTX* context, const TlsMaterial& material, const TlsFiles& files);

// Makes the same checks as UseTlsMaterial.
absl::Status CheckTlsMaterial(const TlsMaterial& material, const TlsFiles& files);

}  // namespace svcmap::api
