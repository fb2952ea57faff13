// Functions that both encodings use: the kind of a resource, and the key and change of an object.
// Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "api/kube/resource.h"
#include "api/kube/wire/decode.h"
#include "api/manifests/kinds.h"

namespace svcmap::kube {

// Maximum encoded size of one object or event.
inline constexpr size_t kMaxObjectBytes = size_t{16} << 20;

const api::ManifestKind& KindOf(Resource resource);

// Error in an object. `field` is the path of the field, such as "metadata.name", or empty for the
// object itself.
struct ObjectError {
  std::string field;
  std::string reason;
};

// Sets item.key. Returns an error if a required name is empty.
std::optional<ObjectError> SetKey(Resource resource, std::string_view name_space,
                                  std::string_view name, Item& item);

// Sets item.change from the protobuf encoding of an object.
std::optional<ObjectError> SetChange(Resource resource, std::string_view object, Item& item);

// Returns DATA_LOSS with a message such as "services: items[3] ...". `where` may be empty.
absl::Status WireError(Resource resource, std::string_view where, std::string_view what);
absl::Status WireError(Resource resource, std::string_view where, const ObjectError& error);

// Returns nullopt for an unknown type.
std::optional<WatchEvent::Type> ParseEventType(std::string_view type);

// Returns whether `kind` and `api_version` match the resource. `suffix` is "" or "List". An empty
// kind or api_version matches, because the API server may omit it.
bool IsKind(std::string_view kind, std::string_view api_version, Resource resource,
            std::string_view suffix);

// Converts text from a response to one line for the log. Escapes unprintable characters and
// shortens long text.
std::string OneLine(std::string_view text);

}  // namespace svcmap::kube
