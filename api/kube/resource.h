// What the bridge asks of the API server.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace svcmap::kube {

enum class Resource : uint8_t { kServices, kEndpointSlices, kNode, kServiceCidrs };

inline constexpr std::array kResources = {Resource::kServices, Resource::kEndpointSlices,
                                          Resource::kNode, Resource::kServiceCidrs};

std::string_view ResourceName(Resource resource);  // "services", "endpointslices" ...

// Which objects of each resource.
struct Selection {
  std::string node_name;  // Required: the Node of this name alone.

  // Services whose label service.kubernetes.io/service-proxy-name is this; empty: those without the
  // label (S-1).
  std::string service_proxy_name;

  // Services without a clusterIP, too, which svcmapd leaves alone (S-2): API servers before
  // Kubernetes 1.31 know no field selector that leaves them out.
  bool headless_services = false;
};

// Path and query of the collection with its selectors (S-1, S-17), percent-encoded, without what a
// single request adds: "/api/v1/services?labelSelector=...". Each has a query.
std::string CollectionPath(Resource resource, const Selection& selection);

std::string PercentEncoded(std::string_view text);  // As a value in a query.

}  // namespace svcmap::kube
