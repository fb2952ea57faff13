#include "api/cli/channel.h"

#include <algorithm>
#include <string_view>

namespace svcmap::api {
namespace {

// "No such file or directory" out of "failed to connect to all addresses; last error: UNKNOWN:
// unix:/x.sock: No such file or directory".
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
  arguments.SetMaxReceiveMessageSize(-1);                   // An Ack may have a result per object.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);          // No agent is behind $http_proxy.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A new channel, a new connection.
  return grpc::CreateCustomChannel(target,
                                   tls.ca.empty()
                                       ? grpc::InsecureChannelCredentials()
                                       : grpc::SslCredentials({tls.ca, tls.key, tls.certificate}),
                                   arguments);
}

// gRPC hangs up on clients that it does not let in, and does not say why.
std::string ConnectAdvice(const std::string& message, const std::string& target,
                          const TlsMaterial& tls) {
  const std::string problem = ConnectProblem(message);
  if (problem.ends_with("certificate verify failed")) {
    return "the agent's certificate is not signed by a CA of --tls-ca, or is not valid now";
  }
  if (problem != "Socket closed" && problem != "Connection reset by peer") return problem;
  return std::string("the agent hung up at once: it may not ") +
         (target.starts_with("unix:") ? "let this user in"
          : tls.ca.empty()            ? "speak without TLS, see --tls-ca"
          : tls.certificate.empty()   ? "speak without a client's certificate, see --tls-cert"
                                      : "take this certificate, or not speak TLS");
}

}  // namespace svcmap::api
