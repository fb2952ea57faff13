// Finds out why a TLS connection to the agent fails. gRPC reports only "certificate verify failed"
// or a closed connection.
#pragma once

#include <string>

#include "api/tls/tls_files.h"

namespace svcmap::api {

// Connects to `target` ("dns:///HOST:PORT") with TLS. Returns the reason if the certificate of the
// agent or of this client is rejected, and otherwise "". Blocks for at most a few seconds.
std::string ProbeTls(const std::string& target, const TlsMaterial& tls);

}  // namespace svcmap::api
