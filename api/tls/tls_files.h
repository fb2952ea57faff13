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
// the CAs that sign the peer's certificate. `server_name` is not a path: a client requires this name
// in the certificate of the server. If it is empty, the certificate must contain the host of the
// address.
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

}  // namespace svcmap::api
