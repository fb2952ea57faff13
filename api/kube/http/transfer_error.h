// What libcurl says of a request that failed, for people.
#pragma once

#include <curl/curl.h>

#include <string>

#include "absl/status/status.h"
#include "api/tls/tls_files.h"

namespace svcmap::kube {

struct TransferFailure {
  CURLcode code = CURLE_OK;
  CURL* easy = nullptr;        // Still with what it knows of the request.
  std::string detail;          // libcurl's error buffer.
  int alert = -1;              // The fatal TLS alert that the server sent; -1: none.
  std::string verified_name;   // What its certificate had to be made out to.
  const api::TlsFiles& names;  // Of certificates and keys, for the message.
};

// With the code that HttpClient::Get promises. The message begins behind the server's name.
absl::Status TransferError(const TransferFailure& failure);

}  // namespace svcmap::kube
