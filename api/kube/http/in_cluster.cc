#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/kube/http/api_server.h"
#include "api/kube/http/server_url.h"
#include "api/manifests/manifests.h"
#include "nft/base/status.h"

namespace svcmap::kube {
namespace {

constexpr char kHostVariable[] = "KUBERNETES_SERVICE_HOST";
constexpr char kPortVariable[] = "KUBERNETES_SERVICE_PORT";

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<ApiServer> InCluster(const std::string& folder) {
  const std::string host = FromEnvironment(kHostVariable);
  const std::string port = FromEnvironment(kPortVariable);
  if (host.empty() || port.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no API server: set --kubeconfig or --master, or run svcmap-kube in a pod; ",
                     kHostVariable, " and ", kPortVariable, " are not set"));
  }
  const bool ipv6 = host.find(':') != std::string::npos;
  const absl::StatusOr<ServerUrl> url =
      ParseServerUrl(absl::StrCat("https://", ipv6 ? "[" : "", host, ipv6 ? "]" : "", ":", port));
  if (!url.ok()) {
    return Annotate(url.status(), absl::StrCat(kHostVariable, " and ", kPortVariable));
  }
  ApiServer server = {
      .url = url->ToString(), .ca_file = folder + "/ca.crt", .token_file = folder + "/token"};
  for (const std::string& path : {server.ca_file, server.token_file}) {
    const absl::Status status = api::ReadTextFile(path).status();
    if (!status.ok()) {
      return Annotate(status, "service account (is automountServiceAccountToken false?)");
    }
  }
  return server;
}

}  // namespace svcmap::kube
