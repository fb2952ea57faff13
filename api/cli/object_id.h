// Parses and prints kinds ("svc"), object names ("service/shop/web") and destinations of packets.
// Pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/convert/kinds.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Finds a kind by its plural, singular or short name, ignoring case. Returns null if no kind
// matches `word`.
const KindInfo* FindKindWord(std::string_view word);
const KindInfo& WordsOf(v1::Kind kind);  // Returns "object" and "objects" for an unknown kind.

// Returns the list of kinds for messages: "services (svc), endpointslices (eps), ...".
std::string KindList();

struct ObjectId {
  v1::Kind kind = v1::KIND_UNSPECIFIED;
  std::string name_space = {};  // Namespace, or empty for cluster-scoped kinds.
  std::string name = {};

  std::string ToString() const;  // "service/shop/web", "node/node-1"
  v1::ObjectRef ToRef() const;

  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};

ObjectId IdOf(const v1::Object& object);
ObjectId IdOf(const v1::ObjectResult& result);

// Namespace of a name without a namespace, as in manifests and in kubectl.
inline constexpr std::string_view kDefaultNamespace = "default";

// Parses "shop/web". For "web", uses the namespace from -n, which is in `name_space`, or
// kDefaultNamespace. If `name_required` is false, `text` can be empty.
absl::StatusOr<ObjectId> ParseObjectId(const KindInfo& kind, std::string_view text,
                                       std::string_view name_space, bool name_required);

// Parses "10.96.0.10:53/UDP" or "[fd00::1]:80", and sets the destination of `request`. The default
// protocol is TCP. Protocol names are not case-sensitive. The error message names the invalid part.
absl::Status ParseDestination(std::string_view text, v1::ExplainRequest& request);

// Parses "shop/web" or "shop/web:http". An empty `port` means all ports. Returns false if `text`
// has another form.
bool ParseServicePort(std::string_view text, ObjectId& service, std::string& port);

// Returns "10.0.0.1:80" or "[fd00::1]:80".
std::string AddressAndPort(const std::string& address, uint32_t port);

}  // namespace svcmap::api
