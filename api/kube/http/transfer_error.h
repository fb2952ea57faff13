// Converts libcurl errors to messages for operators.
#pragma once

#include <curl/curl.h>

#include <string>

#include "absl/status/status.h"
#include "api/tls/tls_files.h"

namespace svcmap::kube {

struct TransferFailure {
  CURLcode code = CURLE_OK;
  CURL* easy = nullptr;        // The handle of the failed request.
  std::string detail;          // libcurl's error buffer.
  int alert = -1;              // Fatal TLS alert from the server, or -1.
  std::string verified_name;   // Name that the server's certificate must contain.
  const api::TlsFiles& names;  // Names of the certificates and keys, for the message.
};

// Returns a status with a code as documented for HttpClient::Get. Does not handle timeouts. The
// caller adds the server's name to the message.
absl::Status TransferError(const TransferFailure& failure);

}  // namespace svcmap::kube
