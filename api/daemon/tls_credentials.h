// TLS of a TCP listener: the client's certificate is demanded and verified, and the files are read
// anew for each connection. Connections that stand are not touched by a change.
//
// gRPC's FileWatcherCertificateProvider would poll the files too, but it gives up what worked: its
// TlsServerCredentials (1.51) frees the handshaker factory before it makes the next one, so a key
// that is not the certificate's takes the listener down, and an unreadable file counts as an empty
// one. What stands behind SslServerCredentials asks a callback instead, before each handshake, and
// keeps what it had unless the callback has something new that is good.
#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/tls/tls_files.h"

namespace svcmap::api {

// For one listener; lives at least as long as the server does.
class TlsListenerCredentials final : public grpc::ServerCredentials {
 public:
  // The error says what is wrong with the files as they are now.
  static absl::StatusOr<std::shared_ptr<TlsListenerCredentials>> Load(const TlsFiles& files);
  ~TlsListenerCredentials() override;

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  TlsListenerCredentials(const TlsFiles& files, TlsMaterial material);
  int AddPortToServer(const std::string& address, grpc_server* server) override;

  // gRPC calls it one at a time, first when the port is added.
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config);
  bool ReadAnew();  // Whether there is something new to be used.

  const TlsFiles files_;
  TlsMaterial material_;  // In use.
  TlsMaterial bad_;       // Looked at last of what could not be used.
  std::string problem_;   // That was logged last; empty: there is none.
  bool fetched_ = false;
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace svcmap::api
