// Certificates and keys from PEM files, checked as far as can be before a peer is there: both
// programs say what is wrong with a file before gRPC would fail without a word.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::api {

// Paths. Certificate (with its intermediates) and key are a pair, `ca` is what the peer's
// certificate has to be signed by.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string ca;
};

// What stands in these files.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string ca;
  bool operator==(const TlsMaterial&) const = default;
};

// Paths that are empty are left out. The error names the file.
absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files);

// OK if TLS can be spoken with `material`: all is PEM, the key is that of the certificate and not
// encrypted. What is empty is not checked. `files` is for the error.
absl::Status CheckTlsMaterial(const TlsMaterial& material, const TlsFiles& files);

}  // namespace svcmap::api
