// Fields of Kubernetes objects that svcmap does not read, and suggestions for misspelled fields and
// kinds.
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/descriptor.h"

namespace svcmap::api {

// Returns true if the Kubernetes type with the name of `type` has the field, although `type` does
// not have it. `top_level` is true for the fields of an object, such as `kind`.
bool IsUnreadField(const google::protobuf::Descriptor& type, std::string_view name, bool top_level);

// Returns true if `name` is probably a misspelling of `expected`: at most a third of its characters
// differ, without regard to case.
bool IsSimilar(std::string_view name, std::string_view expected);

// Returns the most similar field of the Kubernetes type, or "" if no field is similar.
std::string SimilarField(const google::protobuf::Descriptor& type, std::string_view name);

}  // namespace svcmap::api
