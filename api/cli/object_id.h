// Kinds and objects by the words people type: "svc", "service/shop/web". Pure functions.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct KindWords {
  v1::Kind kind;
  std::string_view plural;      // "services"
  std::string_view singular;    // "service"
  std::string_view short_name;  // "svc"
  bool namespaced;
};

// By plural, singular or short name, whatever the case. Null for another word.
const KindWords* FindKind(std::string_view word);
const KindWords& WordsOf(v1::Kind kind);  // "object" and the like for a kind we do not know.

// "services (svc), endpointslices (eps), ..."
std::string KindList();

struct ObjectId {
  v1::Kind kind = v1::KIND_UNSPECIFIED;
  std::string name_space = {};  // Empty for kinds without.
  std::string name = {};

  std::string ToString() const;  // "service/shop/web", "node/node-1"
  v1::ObjectRef ToRef() const;

  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};

ObjectId IdOf(const v1::Object& object);
ObjectId IdOf(const v1::ObjectResult& result);

// "shop/web", or "web" when `name_space` (of -n) says the rest. With `name_required` false the
// name, and for "web" the namespace, may be left open.
absl::StatusOr<ObjectId> ParseObjectId(const KindWords& kind, std::string_view text,
                                       std::string_view name_space, bool name_required);

}  // namespace svcmap::api
