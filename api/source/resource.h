// The resources that a source reads and sends to svcmapd.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "api/convert/kinds.h"

namespace svcmap::source {

// In the order of proxy::Kind.
enum class Resource : uint8_t { kServices, kEndpointSlices, kNode, kServiceCidrs };

inline constexpr std::array kResources = {Resource::kServices, Resource::kEndpointSlices,
                                          Resource::kNode, Resource::kServiceCidrs};

constexpr const api::KindInfo& KindOf(Resource resource) {
  return api::kKinds[static_cast<size_t>(resource)];
}

// "services", "endpointslices" ...
constexpr std::string_view ResourceName(Resource resource) { return KindOf(resource).plural; }

}  // namespace svcmap::source
