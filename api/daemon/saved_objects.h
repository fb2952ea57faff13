// The objects that a former life left on disk.
#pragma once

#include <vector>

#include "api/convert/convert.h"
#include "proxy/saved/saved_state.h"
#include "proxy/state/store.h"

namespace svcmap::api {

// Puts them into the store. What this version refuses, or cannot read, stays out, with a warning in
// the log.
void ApplySavedObjects(const std::vector<proxy::SavedState::Object>& objects,
                       const ConvertContext& context, proxy::Store& store);

}  // namespace svcmap::api
