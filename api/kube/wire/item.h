// What both encodings have in common: which kind a resource has, which part of its metadata is
// kept, and what an object is called. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "api/kube/resource.h"
#include "api/kube/wire/decode.h"
#include "api/manifests/kinds.h"

namespace svcmap::kube {

inline constexpr size_t kMaxObjectBytes = size_t{16} << 20;  // Of one object or event, encoded.

const api::ManifestKind& KindOf(Resource resource);

// What is wrong with an object, found while it is read: where ("metadata.name"; empty: the object)
// and what.
struct ObjectError {
  std::string field;
  std::string reason;
};

// Sets item.key. Returns an error if a required name is empty.
std::optional<ObjectError> SetKey(Resource resource, std::string_view name_space,
                                  std::string_view name, Item& item);

// Sets item.change from the protobuf encoding of an object.
std::optional<ObjectError> SetChange(Resource resource, std::string_view object, Item& item);

// "services: items[3] ...": DATA_LOSS. `where` may be empty.
absl::Status WireError(Resource resource, std::string_view where, std::string_view what);
absl::Status WireError(Resource resource, std::string_view where, const ObjectError& error);

// Nothing: not a type that Kubernetes has.
std::optional<WatchEvent::Type> ParseEventType(std::string_view type);

// Checks a kind that was said, "Service" or "ServiceList"; empty: nothing was said.
bool IsKind(std::string_view kind, std::string_view api_version, Resource resource,
            std::string_view suffix);

// Text of others in one line of a log: what cannot be printed is escaped, what is long is cut.
std::string OneLine(std::string_view text);

}  // namespace svcmap::kube
