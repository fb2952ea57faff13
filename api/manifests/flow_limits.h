// Limits for YAML flow collections ([...] and {...}). yaml-cpp keeps an outermost flow collection
// in memory, about 300 bytes for each value, until yaml-cpp has read the closing bracket. Only then
// does TreeBuilder receive the first event. Therefore the limits are checked before yaml-cpp reads
// the text. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "api/manifests/tree.h"

namespace svcmap::api {

inline constexpr size_t kMaxFlowValues = 100'000;

// Returns an error if a flow collection is nested deeper than kMaxManifestDepth or has more than
// kMaxFlowValues values including nested values. `first_line` is the line number of the start of
// `text`. Other errors of the text are ignored.
std::optional<SyntaxError> CheckFlowLimits(std::string_view text, int first_line);

}  // namespace svcmap::api
