#include "api/daemon/tls_credentials.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "api/log/log_value.h"

namespace svcmap::api {

absl::StatusOr<std::shared_ptr<TlsListenerCredentials>> TlsListenerCredentials::Load(
    const TlsFiles& files) {
  absl::StatusOr<TlsMaterial> material = ReadTlsFiles(files);
  if (!material.ok()) return material.status();
  if (absl::Status bad = CheckTlsMaterial(*material, files); !bad.ok()) return bad;
  return std::shared_ptr<TlsListenerCredentials>(
      new TlsListenerCredentials(files, *std::move(material)));
}

TlsListenerCredentials::TlsListenerCredentials(const TlsFiles& files, TlsMaterial material)
    : files_(files), material_(std::move(material)) {
  // The minimum version is TLS 1.2, which is fixed in gRPC.
  credentials_ = grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(
          GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
          [](void* self, grpc_ssl_server_certificate_config** config) {
            return static_cast<TlsListenerCredentials*>(self)->Fetch(config);
          },
          this));
}

TlsListenerCredentials::~TlsListenerCredentials() { grpc_server_credentials_release(credentials_); }

int TlsListenerCredentials::AddPortToServer(const std::string& address, grpc_server* server) {
  return grpc_server_add_http2_port(server, address.c_str(), credentials_);
}

grpc_ssl_certificate_config_reload_status TlsListenerCredentials::Fetch(
    grpc_ssl_server_certificate_config** config) {
  if (fetched_ && !ReadAnew()) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  fetched_ = true;
  const grpc_ssl_pem_key_cert_pair pair = {material_.key.c_str(), material_.certificate.c_str()};
  *config = grpc_ssl_server_certificate_config_create(material_.ca.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

bool TlsListenerCredentials::ReadAnew() {
  const absl::StatusOr<TlsMaterial> read = ReadTlsFiles(files_);
  absl::Status status = read.status();
  if (status.ok()) {
    if (*read == material_) {
      problem_.clear();
      return false;
    }
    if (*read == bad_) return false;
    status = CheckTlsMaterial(*read, files_);
    if (!status.ok()) bad_ = *read;
  }
  if (!status.ok()) {
    const std::string problem(status.message());
    if (problem != problem_) {
      spdlog::error(
          "changed TLS files rejected, new connections use the previous certificates error={}",
          LogValue(problem));
    }
    problem_ = problem;
    return false;
  }
  problem_.clear();
  material_ = *read;
  spdlog::info("TLS files reloaded for new connections cert={} key={} client_ca={}",
               LogValue(files_.certificate), LogValue(files_.key), LogValue(files_.ca));
  return true;
}

}  // namespace svcmap::api
