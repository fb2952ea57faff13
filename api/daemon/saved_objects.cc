#include "api/daemon/saved_objects.h"

#include <spdlog/spdlog.h>

#include "api/log/log_value.h"

namespace svcmap::api {

void ApplySavedObjects(const std::vector<proxy::SavedObject>& objects,
                       const ConvertContext& context, proxy::Store& store) {
  for (const proxy::SavedObject& saved : objects) {
    ConvertedChange converted = ConvertObject(saved.kind, saved.message, context);
    if (!converted.change) {
      spdlog::warn("saved object rejected, skipped kind={} name={} error={}", KindName(saved.kind),
                   LogValue(saved.key), LogValue(converted.findings.front().ToString()));
      continue;
    }
    if (saved.kind == proxy::Kind::kService) converted.change->first_seen = saved.first_seen;
    store.Apply(*converted.change, 0);
  }
}

}  // namespace svcmap::api
