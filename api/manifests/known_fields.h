// Fields and kinds of Kubernetes that svcmap does not read, and suggestions for misspelled fields
// and kinds. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/descriptor.h"

namespace svcmap::api {

// Returns true if the Kubernetes type with the name of `type` has the field, although `type` does
// not have it. `top_level` is true for the fields of an object, such as `kind`.
bool IsUnreadField(const google::protobuf::Descriptor& type, std::string_view name, bool top_level);

// Returns true if `kind` exists in the API group of `api_version`, although svcmap does not read
// it. Returns true for each kind of API groups without a kind that svcmap reads. Returns false for
// Endpoints, because svcmap reads endpoints only from EndpointSlices.
bool IsUnreadKind(std::string_view api_version, std::string_view kind);

// Returns true if `name` is probably a misspelling of `expected`: at most a third of its characters
// differ, without regard to case.
bool IsSimilar(std::string_view name, std::string_view expected);

// Returns the most similar field of the Kubernetes type, or "" if no field is similar.
std::string SimilarField(const google::protobuf::Descriptor& type, std::string_view name);

}  // namespace svcmap::api
