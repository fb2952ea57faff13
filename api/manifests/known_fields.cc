#include "api/manifests/known_fields.h"

#include <algorithm>
#include <span>
#include <vector>

#include "absl/strings/ascii.h"
#include "api/convert/kinds.h"

namespace svcmap::api {
namespace {

// Fields of Kubernetes 1.36 (generated.proto) that svcmap/v1/objects.proto does not describe.
constexpr std::string_view kMetadata[] = {"deletionGracePeriodSeconds",
                                          "finalizers",
                                          "generateName",
                                          "generation",
                                          "managedFields",
                                          "ownerReferences",
                                          "resourceVersion",
                                          "selfLink",
                                          "uid"};
constexpr std::string_view kServiceSpec[] = {"allocateLoadBalancerNodePorts",
                                             "externalName",
                                             "ipFamilyPolicy",
                                             "loadBalancerClass",
                                             "loadBalancerIP",
                                             "publishNotReadyAddresses",
                                             "selector",
                                             "trafficDistribution"};
constexpr std::string_view kServicePort[] = {"appProtocol", "targetPort"};
constexpr std::string_view kServiceStatus[] = {"conditions"};
constexpr std::string_view kIngress[] = {"ports"};
constexpr std::string_view kEndpoint[] = {"deprecatedTopology", "hostname", "targetRef"};
constexpr std::string_view kEndpointPort[] = {"appProtocol"};
constexpr std::string_view kNodeSpec[] = {"configSource", "externalID", "podCIDR", "providerID",
                                          "unschedulable"};
constexpr std::string_view kTaint[] = {"effect", "timeAdded", "value"};
constexpr std::string_view kNodeStatus[] = {
    "allocatable",      "capacity",        "conditions",  "config",   "daemonEndpoints",
    "declaredFeatures", "features",        "images",      "nodeInfo", "phase",
    "runtimeHandlers",  "volumesAttached", "volumesInUse"};
constexpr std::string_view kServiceCidr[] = {"status"};
constexpr std::string_view kTopLevel[] = {"apiVersion", "kind"};

// Kinds of Kubernetes 1.36 that svcmap does not read, in the API groups of the kinds that it reads.
constexpr std::string_view kCoreKinds[] = {"Binding",
                                           "ComponentStatus",
                                           "ConfigMap",
                                           "Event",
                                           "LimitRange",
                                           "Namespace",
                                           "PersistentVolume",
                                           "PersistentVolumeClaim",
                                           "Pod",
                                           "PodTemplate",
                                           "ReplicationController",
                                           "ResourceQuota",
                                           "Secret",
                                           "ServiceAccount"};
constexpr std::string_view kNetworkingKinds[] = {"IPAddress", "Ingress", "IngressClass",
                                                 "NetworkPolicy"};

std::span<const std::string_view> UnreadFields(std::string_view type) {
  struct Entry {
    std::string_view type;
    std::span<const std::string_view> fields;
  };
  static constexpr Entry kEntries[] = {{"ObjectMeta", kMetadata},
                                       {"ServiceSpec", kServiceSpec},
                                       {"ServicePort", kServicePort},
                                       {"ServiceStatus", kServiceStatus},
                                       {"LoadBalancerIngress", kIngress},
                                       {"Endpoint", kEndpoint},
                                       {"EndpointPort", kEndpointPort},
                                       {"NodeSpec", kNodeSpec},
                                       {"Taint", kTaint},
                                       {"NodeStatus", kNodeStatus},
                                       {"ServiceCIDR", kServiceCidr}};
  for (const Entry& entry : kEntries) {
    if (entry.type == type) return entry.fields;
  }
  return {};
}

constexpr size_t kLongest = 64;  // No field and no kind is longer.

bool Contains(std::span<const std::string_view> fields, std::string_view name) {
  return std::find(fields.begin(), fields.end(), name) != fields.end();
}

// Number of characters to insert, delete, replace or swap with their neighbour, without regard to
// case.
size_t Distance(std::string_view a, std::string_view b) {
  const auto same = [&](size_t i, size_t j) {
    return absl::ascii_tolower(static_cast<unsigned char>(a[i - 1])) ==
           absl::ascii_tolower(static_cast<unsigned char>(b[j - 1]));
  };
  // Distances of the first i characters of `a` and the first j characters of `b`.
  std::vector<std::vector<size_t>> of(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      of[i][j] = i + j;
      if (i == 0 || j == 0) continue;
      of[i][j] =
          std::min({of[i - 1][j] + 1, of[i][j - 1] + 1, of[i - 1][j - 1] + (same(i, j) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j)) {
        of[i][j] = std::min(of[i][j], of[i - 2][j - 2] + 1);
      }
    }
  }
  return of[a.size()][b.size()];
}

}  // namespace

bool IsUnreadField(const google::protobuf::Descriptor& type, std::string_view name,
                   bool top_level) {
  return Contains(UnreadFields(type.name()), name) || (top_level && Contains(kTopLevel, name));
}

bool IsUnreadKind(std::string_view api_version, std::string_view kind) {
  if (kind.ends_with("List")) kind.remove_suffix(4);
  const std::string_view group = GroupOf(api_version);
  if (group.empty()) return Contains(kCoreKinds, kind);
  if (group == "networking.k8s.io") return Contains(kNetworkingKinds, kind);
  return group != "discovery.k8s.io";
}

bool IsSimilar(std::string_view name, std::string_view expected) {
  return name.size() <= kLongest && Distance(name, expected) <= name.size() / 3;
}

std::string SimilarField(const google::protobuf::Descriptor& type, std::string_view name) {
  if (name.size() > kLongest) return "";
  std::string similar;
  size_t least = name.size() / 3 + 1;  // An accepted field differs less.
  const auto consider = [&](std::string_view field) {
    const size_t distance = Distance(name, field);
    if (distance >= least) return;
    least = distance;
    similar = field;
  };
  for (int i = 0; i < type.field_count(); ++i) consider(type.field(i)->json_name());
  for (const std::string_view field : UnreadFields(type.name())) consider(field);
  return similar;
}

}  // namespace svcmap::api
