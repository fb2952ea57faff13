// The resources that svcmap-kube reads from the API server.
#pragma once

#include <string>
#include <string_view>

#include "api/source/object.h"

namespace svcmap::kube {

using source::KindOf;
using source::kResources;
using source::Resource;
using source::ResourceName;

// Name with the API group, as in RBAC and kubectl: "endpointslices.discovery.k8s.io".
std::string NameWithGroup(Resource resource);

// Selects the objects of each resource.
struct Selection {
  std::string node_name;  // Required. Only the Node with this name is selected.

  // Value of the label service.kubernetes.io/service-proxy-name of the selected Services. If empty,
  // Services without the label are selected (S-1).
  std::string service_proxy_name;

  // True if headless Services, which svcmapd ignores (S-2), are also selected. API servers before
  // Kubernetes 1.31 do not support the field selector that excludes them.
  bool headless_services = false;

  // True if ServiceCIDRs are selected in kServiceCidrBetaVersion. Kubernetes 1.31 and 1.32 do not
  // have v1.
  bool beta_service_cidrs = false;
};

inline constexpr std::string_view kServiceCidrBetaVersion = "networking.k8s.io/v1beta1";

// Returns path and query of the collection with its selectors (S-1, S-17), percent-encoded:
// "/api/v1/services?labelSelector=...". There is always a query, so that parameters of a request
// can be appended with "&".
std::string CollectionPath(Resource resource, const Selection& selection);

std::string PercentEncoded(std::string_view text);  // Encodes a value in a query.

}  // namespace svcmap::kube
