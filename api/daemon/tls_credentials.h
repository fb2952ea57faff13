// Mutual TLS of a TCP listener. The certificate files are read again for each new connection, so
// certificates can be rotated without a restart. Established connections are unaffected.
//
// This class uses the callback of SslServerCredentials, which gRPC calls before each handshake and
// which keeps the previous certificates unless it returns valid new ones. gRPC's
// FileWatcherCertificateProvider is not used, because TlsServerCredentials (gRPC 1.51) frees the
// handshaker factory before it creates the next one. A key that does not match the certificate then
// disables the listener, and an unreadable file counts as an empty file.
#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/tls/tls_files.h"

namespace svcmap::api {

// Credentials of one listener. Must outlive the server.
class TlsListenerCredentials final : public grpc::ServerCredentials {
 public:
  // Returns an error that names the file if the files cannot be used.
  static absl::StatusOr<std::shared_ptr<TlsListenerCredentials>> Load(const TlsFiles& files);
  ~TlsListenerCredentials() override;

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  TlsListenerCredentials(const TlsFiles& files, TlsMaterial material);
  int AddPortToServer(const std::string& address, grpc_server* server) override;

  // gRPC calls this first when the port is added, then before each handshake, one call at a time.
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config);
  bool ReadAnew();  // Returns true if the files have valid new content.

  const TlsFiles files_;
  TlsMaterial material_;  // In use.
  TlsMaterial bad_;       // The latest content that was rejected.
  std::string problem_;   // The error that was logged last. Empty if the files are valid.
  bool fetched_ = false;
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace svcmap::api
