#include "api/manifests/known_fields.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "api/convert/kinds.h"

namespace svcmap::api {
namespace {

// Words separated by spaces.
using Words = std::string_view;

// Fields of Kubernetes 1.36 (generated.proto) that svcmap/v1/objects.proto does not describe, by
// the name of the type.
constexpr std::pair<std::string_view, Words> kUnreadFields[] = {
    {"ObjectMeta",
     "deletionGracePeriodSeconds finalizers generateName generation managedFields ownerReferences "
     "resourceVersion selfLink uid"},
    {"ServiceSpec",
     "allocateLoadBalancerNodePorts externalName ipFamilyPolicy loadBalancerClass loadBalancerIP "
     "publishNotReadyAddresses selector trafficDistribution"},
    {"ServicePort", "appProtocol targetPort"},
    {"ServiceStatus", "conditions"},
    {"LoadBalancerIngress", "ports"},
    {"Endpoint", "deprecatedTopology hostname targetRef"},
    {"EndpointPort", "appProtocol"},
    {"NodeSpec", "configSource externalID podCIDR providerID unschedulable"},
    {"Taint", "effect timeAdded value"},
    {"NodeStatus",
     "allocatable capacity conditions config daemonEndpoints declaredFeatures features images "
     "nodeInfo phase runtimeHandlers volumesAttached volumesInUse"},
    {"ServiceCIDR", "status"}};
constexpr Words kTopLevelFields = "apiVersion kind";

// Kinds of Kubernetes 1.36 that svcmap does not read, in the API groups of the kinds that it reads.
constexpr Words kCoreKinds =
    "Binding ComponentStatus ConfigMap Event LimitRange Namespace PersistentVolume "
    "PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret "
    "ServiceAccount";
constexpr Words kNetworkingKinds = "IPAddress Ingress IngressClass NetworkPolicy";

std::vector<std::string> Split(Words words) {
  return absl::StrSplit(std::string(words), ' ', absl::SkipEmpty());
}

Words UnreadFields(std::string_view type) {
  for (const auto& [name, fields] : kUnreadFields) {
    if (name == type) return fields;
  }
  return {};
}

constexpr size_t kLongest = 64;  // No field and no kind is longer.

bool Contains(Words words, std::string_view word) {
  const std::vector<std::string> all = Split(words);
  return std::find(all.begin(), all.end(), word) != all.end();
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
  return Contains(UnreadFields(type.name()), name) ||
         (top_level && Contains(kTopLevelFields, name));
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
  for (const std::string& field : Split(UnreadFields(type.name()))) consider(field);
  return similar;
}

}  // namespace svcmap::api
