// Certificates and keys of a client, from text or from files that Kubernetes may replace.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/kube/http/api_server.h"
#include "api/tls/tls_files.h"

namespace svcmap::kube {

// Not thread-safe.
class TlsSource {
 public:
  explicit TlsSource(const ApiServer& server);

  // Reads the files again. Returns true if their content has changed, so existing connections use
  // previous certificates. If the new content is invalid, for example because only one file of a
  // pair was replaced, the previous content stays in effect and problem() contains the reason.
  // Returns an error only if there is no previous content.
  absl::StatusOr<bool> Refresh();

  const api::TlsMaterial& material() const { return material_; }
  const absl::Status& problem() const { return problem_; }

  // "certificate-authority /etc/kubernetes/ca.crt", for messages.
  const api::TlsFiles& names() const { return names_; }

 private:
  api::TlsMaterial text_;  // Text from the configuration.
  api::TlsFiles paths_;    // Empty if there is text.
  api::TlsFiles names_;
  api::TlsMaterial material_;
  bool usable_ = false;  // True if material_ was read and is valid.
  absl::Status problem_;
};

}  // namespace svcmap::kube
