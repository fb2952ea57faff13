#include "tests/bench/opponents/api_server.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/manifests/manifests.h"
#include "tests/support/process.h"
#include "tests/support/topology.h"

namespace svcmap::bench {
namespace {

// Maximum number of objects in one kubectl command.
constexpr size_t kChunk = 500;
// Time by which each deleted object extends the time limit of kubectl.
constexpr std::chrono::milliseconds kDeletePatience{100};
constexpr char kLabel[] = "svcmap-bench";

struct ServerUrl {
  std::string scheme, host, port, path;  // `host` has no brackets, even for IPv6 addresses.
};

absl::StatusOr<ServerUrl> ParseServerUrl(const std::string& text) {
  ServerUrl url;
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string::npos) {
    return absl::InvalidArgumentError("kubeconfig: server \"" + text + "\" is not a URL");
  }
  url.scheme = text.substr(0, scheme_end);
  const size_t host_at = scheme_end + 3;
  const size_t path_at = std::min(text.find('/', host_at), text.size());
  url.path = text.substr(path_at);
  url.host = text.substr(host_at, path_at - host_at);
  const size_t bracket = url.host.find(']');
  const size_t colon = url.host.find(':', bracket == std::string::npos ? 0 : bracket);
  url.port = url.scheme == "https" ? "443" : "80";
  if (colon != std::string::npos) {
    url.port = url.host.substr(colon + 1);
    url.host.resize(colon);
  }
  if (bracket != std::string::npos) url.host = url.host.substr(1, bracket - 1);
  return url;
}

}  // namespace

ApiServer::ApiServer(std::string kubeconfig, std::string id, std::chrono::seconds limit,
                     testing::TemporaryFolder folder)
    : kubeconfig_(std::move(kubeconfig)),
      id_(std::move(id)),
      limit_(limit),
      folder_(std::move(folder)) {}

absl::StatusOr<std::unique_ptr<ApiServer>> ApiServer::Open(const std::string& kubeconfig,
                                                           std::string id,
                                                           std::chrono::seconds limit) {
  absl::StatusOr<testing::TemporaryFolder> folder = testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  return std::unique_ptr<ApiServer>(
      new ApiServer(kubeconfig, std::move(id), limit, *std::move(folder)));
}

ApiServer::~ApiServer() {
  if (objects_ == 0) return;
  const std::chrono::milliseconds limit = limit_ + objects_ * kDeletePatience;
  for (const char* kinds : {"services,endpointslices.discovery.k8s.io --all-namespaces",
                            "namespaces,nodes --wait=false"}) {
    const absl::Status gone =
        Kubectl(absl::StrCat("delete ", kinds, " -l ", kLabel, "=", id_), "", limit).status();
    if (gone.ok()) continue;
    std::fprintf(stderr, "objects with the label %s=%s stay in the API server: %s\n", kLabel,
                 id_.c_str(), std::string(gone.message()).c_str());
  }
}

absl::StatusOr<std::string> ApiServer::Expose(const testing::NetNs& netns) {
  const absl::StatusOr<std::string> text = Kubectl("config view --raw --minify --flatten");
  if (!text.ok()) return text.status();
  const std::string path = folder_.path() + "/kubeconfig";
  try {
    YAML::Node config = YAML::Load(*text);
    YAML::Node cluster = config["clusters"][0]["cluster"];
    const absl::StatusOr<ServerUrl> url = ParseServerUrl(cluster["server"].as<std::string>());
    if (!url.ok()) return url.status();
    auto forwarder = TcpForwarder::Start(netns, url->host, url->port);
    if (!forwarder.ok()) return forwarder.status();
    forwarder_ = *std::move(forwarder);
    cluster["server"] = absl::StrCat(url->scheme, "://127.0.0.1:", forwarder_->port(), url->path);
    if (url->scheme == "https" && !cluster["tls-server-name"]) {
      cluster["tls-server-name"] = url->host;
    }
    std::ofstream(path) << config << "\n";  // The directory is readable only by the current user.
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("kubeconfig ", kubeconfig_, ": ", error.what()));
  }
  return path;
}

absl::Status ApiServer::Create(const Cluster& cluster) {
  std::set<std::string> namespaces;
  std::vector<v1::Object> objects;
  for (const ServicePort& port : cluster.ports()) {
    namespaces.insert(port.name_space);
    *objects.emplace_back().mutable_service() = ServiceMessage(port);
    Mark(*objects.back().mutable_service()->mutable_metadata());
    for (v1::EndpointSlice& slice : SliceMessages(port)) {
      Mark(*slice.mutable_metadata());
      *objects.emplace_back().mutable_endpoint_slice() = std::move(slice);
    }
  }
  objects_ = objects.size();
  std::string head;
  for (const std::string& name : namespaces) {
    absl::StrAppend(&head,
                    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"", id_,
                    "-", name, "\",\"labels\":{\"", kLabel, "\":\"", id_, "\"}}}\n---\n");
  }
  // Set an address, because kube-proxy waits until its Node has an address.
  v1::Object node;
  node.mutable_node()->mutable_metadata()->set_name(kThisNode);
  (*node.mutable_node()->mutable_metadata()->mutable_labels())[kLabel] = id_;
  v1::NodeAddress& address = *node.mutable_node()->mutable_status()->add_addresses();
  address.set_type("InternalIP");
  address.set_address(cluster.shape().family == Family::kIpv4 ? testing::kNodeV4
                                                              : testing::kNodeV6);
  if (absl::Status status = Apply(head + api::ManifestJson({node})); !status.ok()) return status;
  for (size_t first = 0; first < objects.size(); first += kChunk) {
    const auto begin = objects.begin() + static_cast<int64_t>(first);
    const auto end = begin + static_cast<int64_t>(std::min(kChunk, objects.size() - first));
    if (absl::Status status = Apply(api::ManifestJson({begin, end})); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ApiServer::Notify(const std::vector<ClusterChange>& changes) {
  std::vector<v1::Object> there, gone;
  for (const ClusterChange& change : changes) {
    for (const v1::Change& message : change.messages) {
      v1::Object object;
      if (message.has_service()) {
        *object.mutable_service() = message.service();
      } else if (message.has_endpoint_slice()) {
        *object.mutable_endpoint_slice() = message.endpoint_slice();
      }
      const bool service = message.has_remove() ? message.remove().kind() == v1::KIND_SERVICE
                                                : message.has_service();
      v1::ObjectMeta& metadata = *(service ? object.mutable_service()->mutable_metadata()
                                           : object.mutable_endpoint_slice()->mutable_metadata());
      if (message.has_remove()) {
        metadata.set_namespace_(message.remove().namespace_());
        metadata.set_name(message.remove().name());
      }
      Mark(metadata);
      (message.has_remove() ? gone : there).push_back(std::move(object));
    }
  }
  objects_ += there.size();
  if (!there.empty()) {
    if (absl::Status status = Apply(api::ManifestJson(there)); !status.ok()) return status;
  }
  if (gone.empty()) return absl::OkStatus();
  return Kubectl("delete --ignore-not-found -f -", api::ManifestJson(gone)).status();
}

absl::Status ApiServer::Apply(const std::string& manifests) {
  return Kubectl("apply --server-side --force-conflicts --field-manager=svcmap-bench -f -",
                 manifests)
      .status();
}

void ApiServer::Mark(v1::ObjectMeta& metadata) const {
  metadata.set_namespace_(id_ + "-" + metadata.namespace_());
  (*metadata.mutable_labels())[kLabel] = id_;
}

absl::StatusOr<std::string> ApiServer::Kubectl(const std::string& arguments,
                                               const std::string& input) {
  return Kubectl(arguments, input, limit_);
}

absl::StatusOr<std::string> ApiServer::Kubectl(const std::string& arguments,
                                               const std::string& input,
                                               std::chrono::milliseconds limit) {
  std::vector<std::string> argv = {"kubectl", "--kubeconfig", kubeconfig_};
  for (const auto word : absl::StrSplit(arguments, ' ')) argv.emplace_back(word);
  return testing::RunOk({.argv = argv, .stdin_text = input}, limit);
}

}  // namespace svcmap::bench
