#include "api/connect/channel.h"

#include <algorithm>
#include <string_view>

#include "api/connect/tls_probe.h"

namespace svcmap::api {
namespace {

// Extracts "No such file or directory" from "failed to connect to all addresses; last error:
// UNKNOWN: unix:/x.sock: No such file or directory".
std::string ConnectProblem(const std::string& message) {
  constexpr std::string_view kLast = "last error: ";
  const size_t last = message.find(kLast);
  if (last == std::string::npos) return message;
  const size_t colon = message.rfind(": ");
  return message.substr(std::max(colon + 2, last + kLast.size()));
}

}  // namespace

std::shared_ptr<grpc::Channel> NewChannel(const std::string& target, const TlsMaterial& tls,
                                          grpc::ChannelArguments arguments) {
  // The message size is unlimited, because an Ack may contain a result for each object.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // Ignores $http_proxy.
  // Prevents the channel from sharing connections with other channels.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target,
                                   tls.ca.empty()
                                       ? grpc::InsecureChannelCredentials()
                                       : grpc::SslCredentials({tls.ca, tls.key, tls.certificate}),
                                   arguments);
}

// gRPC reports only a closed connection when the agent rejects a client, so the returned text lists
// possible reasons.
std::string ConnectAdvice(const std::string& message, const std::string& target,
                          const TlsMaterial& tls) {
  const std::string problem = ConnectProblem(message);
  if (!tls.ca.empty()) {
    if (std::string reason = ProbeTls(target, tls); !reason.empty()) return reason;
  }
  if (problem.ends_with("certificate verify failed")) {
    return "the agent's certificate is not signed by a CA in --tls-ca, or is not currently valid";
  }
  // gRPC reports "Endpoint read failed" after a TLS alert, and "recvmsg:Connection reset by peer"
  // without TLS.
  if (problem != "Socket closed" && problem != "Endpoint read failed" &&
      !problem.ends_with("Connection reset by peer")) {
    return problem;
  }
  return std::string("the agent closed the connection: ") +
         (target.starts_with("unix:") ? "this user may not be authorized"
          : tls.ca.empty()            ? "the agent may require TLS, see --tls-ca"
          : tls.certificate.empty()
              ? "the agent may require a client certificate, see --tls-cert"
              : "the agent may reject this client certificate or may not use TLS");
}

}  // namespace svcmap::api
