#include "api/daemon/saved_objects.h"

#include <spdlog/spdlog.h>

namespace svcmap::api {
namespace {

bool Parse(const proxy::SavedState::Object& saved, v1::Object& object) {
  switch (saved.kind) {
    case proxy::Kind::kService:
      return object.mutable_service()->ParseFromString(saved.message);
    case proxy::Kind::kEndpointSlice:
      return object.mutable_endpoint_slice()->ParseFromString(saved.message);
    case proxy::Kind::kNode:
      return object.mutable_node()->ParseFromString(saved.message);
    case proxy::Kind::kServiceCidr:
      return object.mutable_service_cidr()->ParseFromString(saved.message);
  }
  return false;
}

}  // namespace

void ApplySavedObjects(const std::vector<proxy::SavedState::Object>& objects,
                       const ConvertContext& context, proxy::Store& store) {
  v1::Object object;
  for (const proxy::SavedState::Object& saved : objects) {
    object.Clear();
    if (!Parse(saved, object)) {
      spdlog::warn("saved {} {} cannot be read and is left out", KindName(saved.kind), saved.key);
      continue;
    }
    absl::StatusOr<ConvertedChange> converted = ConvertObject(object, context);
    if (!converted.ok() || !converted->change) {
      spdlog::warn("saved {} {} is refused and left out: {}", KindName(saved.kind), saved.key,
                   converted.ok() ? converted->findings.front().ToString()
                                  : std::string(converted.status().message()));
      continue;
    }
    store.Apply(*converted->change, 0);
  }
}

}  // namespace svcmap::api
