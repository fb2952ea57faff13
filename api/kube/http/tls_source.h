// The certificates and keys of a client, from text or from files that Kubernetes replaces while we
// run.
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

  // Reads the files again, and says whether they are others than before: then connections that
  // stand are of the past. If they cannot be used (one of a pair was not replaced yet), what was
  // read before stays and problem() says why; without that it is the error.
  absl::StatusOr<bool> Refresh();

  const api::TlsMaterial& material() const { return material_; }
  const absl::Status& problem() const { return problem_; }

  // "certificate-authority /etc/kubernetes/ca.crt", for messages.
  const api::TlsFiles& names() const { return names_; }

 private:
  api::TlsMaterial text_;  // From the configuration.
  api::TlsFiles paths_;    // Empty where there is text.
  api::TlsFiles names_;
  api::TlsMaterial material_;
  bool usable_ = false;  // material_ was read and checked.
  absl::Status problem_;
};

}  // namespace svcmap::kube
