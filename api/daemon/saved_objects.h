// Restores the objects that a previous run of svcmapd saved.
#pragma once

#include <vector>

#include "api/convert/convert.h"
#include "proxy/saved/object_writer.h"
#include "proxy/state/store.h"

namespace svcmap::api {

// Adds the objects to the store. Skips objects that cannot be parsed or that this version rejects,
// and logs a warning for each skipped object.
void ApplySavedObjects(const std::vector<proxy::SavedObject>& objects,
                       const ConvertContext& context, proxy::Store& store);

}  // namespace svcmap::api
