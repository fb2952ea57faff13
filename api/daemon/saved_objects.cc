#include "api/daemon/saved_objects.h"

#include <spdlog/spdlog.h>

#include "api/log/log_value.h"

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
      spdlog::warn("saved object unreadable, skipped kind={} name={}", KindName(saved.kind),
                   LogValue(saved.key));
      continue;
    }
    absl::StatusOr<ConvertedChange> converted = ConvertObject(object, context);
    if (!converted.ok() || !converted->change) {
      spdlog::warn("saved object rejected, skipped kind={} name={} error={}", KindName(saved.kind),
                   LogValue(saved.key),
                   converted.ok() ? LogValue(converted->findings.front().ToString())
                                  : LogValue(converted.status()));
      continue;
    }
    store.Apply(*converted->change, 0);
  }
}

}  // namespace svcmap::api
