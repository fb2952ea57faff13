// Creates gRPC channels to the agent and explains connection errors.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "api/tls/tls_files.h"

namespace svcmap::api {

// Creates a channel with its own connection. `target` must be a result of ParseTarget. `tls` must
// have passed CheckTlsMaterial. TLS is disabled if `tls` contains no CA. `arguments` may contain
// further channel arguments.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& target, const TlsMaterial& tls,
                                          grpc::ChannelArguments arguments = {});

// Translates gRPC's error message for a failed connection into a reason and, if known, a hint.
std::string ConnectAdvice(const std::string& message, const std::string& target,
                          const TlsMaterial& tls);

std::string CodeName(grpc::StatusCode code);  // "UNAVAILABLE"

}  // namespace svcmap::api
