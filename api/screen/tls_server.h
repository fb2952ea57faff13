// TLS for TCP listeners. Requires and verifies a client certificate. The files are read again for
// each connection; established connections keep the certificates of their handshake. Files that
// cannot be used are logged, and the previous certificates stay in effect.
//
// Not thread-safe.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/access/access.h"
#include "api/tls/tls_files.h"

namespace svcmap::api {

class TlsServer {
 public:
  // Errors start with the name of the file in `names`.
  static absl::StatusOr<std::unique_ptr<TlsServer>> Load(const TlsFiles& files,
                                                         const TlsFiles& names);

  // Creates a TLS session on the socket `fd`, before the handshake. Returns null if memory is
  // exhausted.
  SslConnection Accept(int fd);

 private:
  TlsServer(TlsFiles files, TlsFiles names) : files_(std::move(files)), names_(std::move(names)) {}
  absl::Status Use(TlsMaterial material);
  void Reload();

  const TlsFiles files_;
  const TlsFiles names_;
  TlsMaterial material_;  // The certificates and key in use.
  TlsMaterial bad_;       // The latest certificates and key that could not be used.
  std::string problem_;   // The latest problem that was logged. May be empty.
  SslContext context_;
};

// Returns the subject alternative names of the client's certificate. Call NamesOf after the TLS
// handshake.
CertificateNames NamesOf(SSL* ssl);

// Returns OpenSSL's reason for the last error of this thread, and clears the thread's errors.
std::string TakeSslError();

}  // namespace svcmap::api
