#include "tests/support/kube_discovery.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace svcmap::testing {
namespace {

using Json = nlohmann::ordered_json;

struct Entry {
  const char* group_version;
  const char* plural;
  const char* kind;
  bool namespaced;
};

// Resources of the fake API server and resources that the project's manifests use.
constexpr Entry kEntries[] = {
    {"v1", "configmaps", "ConfigMap", true},
    {"v1", "endpoints", "Endpoints", true},
    {"v1", "events", "Event", true},
    {"v1", "namespaces", "Namespace", false},
    {"v1", "nodes", "Node", false},
    {"v1", "pods", "Pod", true},
    {"v1", "secrets", "Secret", true},
    {"v1", "serviceaccounts", "ServiceAccount", true},
    {"v1", "services", "Service", true},
    {"apps/v1", "daemonsets", "DaemonSet", true},
    {"apps/v1", "deployments", "Deployment", true},
    {"discovery.k8s.io/v1", "endpointslices", "EndpointSlice", true},
    {"networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", true},
    {"networking.k8s.io/v1", "servicecidrs", "ServiceCIDR", false},
    {"rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", false},
    {"rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", false},
    {"rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", true},
    {"rbac.authorization.k8s.io/v1", "roles", "Role", true}};

Json Groups() {
  Json groups = Json::array();
  std::string last = "v1";
  for (const Entry& entry : kEntries) {
    if (entry.group_version == last) continue;
    last = entry.group_version;
    const Json version = {{"groupVersion", last}, {"version", "v1"}};
    groups.push_back({{"name", last.substr(0, last.find('/'))},
                      {"versions", {version}},
                      {"preferredVersion", version}});
  }
  return {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", groups}};
}

Json Resources(const std::string& group_version) {
  Json resources = Json::array();
  for (const Entry& entry : kEntries) {
    if (entry.group_version != group_version) continue;
    std::string singular = entry.kind;
    std::transform(singular.begin(), singular.end(), singular.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    resources.push_back(
        {{"name", entry.plural},
         {"singularName", singular},
         {"namespaced", entry.namespaced},
         {"kind", entry.kind},
         {"verbs", {"create", "delete", "get", "list", "patch", "update", "watch"}}});
  }
  if (resources.empty()) return nullptr;
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", group_version},
          {"resources", resources}};
}

// Returns the API path prefix, for example "apis/apps/v1".
std::string PathOf(const std::string& group_version) {
  return (group_version.find('/') == std::string::npos ? "api/" : "apis/") + group_version;
}

// Returns a minimal OpenAPI document without schemas. The document announces field validation by
// the server, so kubectl does not validate fields.
Json OpenApi(const std::string& group_version) {
  const size_t slash = group_version.find('/');
  const std::string group = slash == std::string::npos ? "" : group_version.substr(0, slash);
  Json paths = Json::object();
  for (const Entry& entry : kEntries) {
    if (entry.group_version != group_version) continue;
    paths["/" + PathOf(group_version) + "/" + entry.plural + "/{name}"]["patch"] = {
        {"x-kubernetes-group-version-kind",
         {{"group", group}, {"version", "v1"}, {"kind", entry.kind}}},
        {"parameters", {{{"name", "fieldValidation"}, {"in", "query"}}}},
        {"responses", Json::object()}};
  }
  if (paths.empty()) return nullptr;
  return {{"openapi", "3.0.0"},
          {"info", {{"title", "Kubernetes"}, {"version", "v1.34.0"}}},
          {"paths", paths}};
}

Json OpenApiIndex() {
  Json paths = Json::object();
  for (const Entry& entry : kEntries) {
    const std::string path = PathOf(entry.group_version);
    paths[path] = {{"serverRelativeURL", "/openapi/v3/" + path}};
  }
  return {{"paths", paths}};
}

}  // namespace

std::string KubeDiscovery(const std::string& path) {
  if (path == "/version") {
    return Json({{"major", "1"},
                 {"minor", "34"},
                 {"gitVersion", "v1.34.0"},
                 {"platform", "linux/amd64"}})
        .dump();
  }
  if (path == "/api") return Json({{"kind", "APIVersions"}, {"versions", {"v1"}}}).dump();
  if (path == "/apis") return Groups().dump();
  if (path == "/openapi/v3") return OpenApiIndex().dump();
  Json answer;
  for (const auto& [root, make] :
       {std::pair("/api/", &Resources), std::pair("/apis/", &Resources),
        std::pair("/openapi/v3/api/", &OpenApi), std::pair("/openapi/v3/apis/", &OpenApi)}) {
    if (path.rfind(root, 0) == 0) answer = make(path.substr(std::string(root).size()));
  }
  return answer.is_null() ? "" : answer.dump();
}

}  // namespace svcmap::testing
