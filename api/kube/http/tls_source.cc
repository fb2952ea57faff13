#include "api/kube/http/tls_source.h"

#include <utility>

namespace svcmap::kube {
namespace {

std::string Name(const std::string& field, const std::string& pem, const std::string& file) {
  if (!pem.empty()) return field + "-data";
  return file.empty() ? "" : field + " " + file;
}

}  // namespace

TlsSource::TlsSource(const ApiServer& server)
    : text_{server.client_certificate_pem, server.client_key_pem, server.ca_pem},
      paths_{text_.certificate.empty() ? server.client_certificate_file : "",
             text_.key.empty() ? server.client_key_file : "",
             text_.ca.empty() ? server.ca_file : ""},
      names_{Name("client-certificate", text_.certificate, paths_.certificate),
             Name("client-key", text_.key, paths_.key),
             Name("certificate-authority", text_.ca, paths_.ca)} {}

absl::StatusOr<bool> TlsSource::Refresh() {
  absl::StatusOr<api::TlsMaterial> read = api::ReadTlsFiles(paths_);
  problem_ = read.status();
  if (read.ok()) {
    if (paths_.certificate.empty()) read->certificate = text_.certificate;
    if (paths_.key.empty()) read->key = text_.key;
    if (paths_.ca.empty()) read->ca = text_.ca;
    if (usable_ && *read == material_) return false;
    problem_ = api::CheckTlsMaterial(*read, names_);
  }
  if (problem_.ok()) {
    material_ = *std::move(read);
    return std::exchange(usable_, true);
  }
  if (!usable_) return problem_;
  return false;
}

}  // namespace svcmap::kube
