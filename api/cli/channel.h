// A connection to the agent, and what it means when there is none.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "api/tls/tls_files.h"

namespace svcmap::api {

// A new channel is a new connection. `target` as ParseTarget gives it; `tls` was checked, without a
// CA there is no TLS. What `arguments` says is added to.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& target, const TlsMaterial& tls,
                                          grpc::ChannelArguments arguments = {});

// Why there is no connection, of gRPC's message, with what can be done about it.
std::string ConnectAdvice(const std::string& message, const std::string& target,
                          const TlsMaterial& tls);

}  // namespace svcmap::api
