#include "api/etcd/schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "api/convert/kinds.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "api/manifests/manifests.h"

namespace svcmap::etcd {
namespace {

using api::Quote;
using source::KindOf;

absl::Status WrongKind(std::string_view kind, std::string_view api_version,
                       const api::KindInfo& expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      "kind: Invalid value: ", Quote(kind), " of apiVersion ", Quote(api_version), ": must be ",
      std::string(expected.name), " of apiVersion ", std::string(expected.api_version)));
}

// Returns the protobuf encoding of the object in JSON text.
absl::StatusOr<std::string> FromJson(const api::KindInfo& kind, std::string_view text) {
  api::Manifests manifests = api::ReadManifests(text, "JSON");
  for (const auto* findings : {&manifests.errors, &manifests.warnings}) {
    if (!findings->empty()) return absl::InvalidArgumentError(findings->front().ToString());
  }
  if (manifests.objects.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON: contains ", manifests.objects.size(), " objects: must be one object"));
  }
  v1::Object& object = manifests.objects.front().object;
  if (static_cast<int>(object.object_case()) != kind.field) {
    const api::KindInfo* actual = api::FindKindOfField(object.object_case());
    return WrongKind(actual->name, actual->api_version, kind);
  }
  return api::MutableMessage(kind, object).SerializeAsString();
}

absl::StatusOr<std::string_view> FromEnvelope(const api::KindInfo& kind, std::string_view value) {
  const std::optional<source::Envelope> envelope = source::OpenEnvelope(value);
  if (!envelope) return absl::InvalidArgumentError("the protobuf envelope cannot be decoded");
  const auto fits = [](std::string_view is, std::string_view expected) {
    return is.empty() || is == expected;
  };
  const kube::wire::TypeMeta& type = envelope->type;
  if (!fits(type.kind(), kind.name) || !fits(type.api_version(), kind.api_version)) {
    return WrongKind(type.kind(), type.api_version(), kind);
  }
  return envelope->raw;
}

absl::Status StatusOf(const source::ObjectError& error) {
  return absl::InvalidArgumentError(error.field.empty() ? "the object " + error.reason
                                                        : error.field + ": " + error.reason);
}

}  // namespace

Schema::Schema(const std::string& prefix, const std::string& node_name)
    : state_(prefix + "/state/"),
      state_end_(prefix + "/state0"),  // '0' follows '/'.
      head_(state_ + "head"),
      node_(prefix + "/nodes/" + node_name),
      node_name_(node_name) {}

std::optional<Schema::Name> Schema::NameOf(std::string_view key) const {
  if (key == node_) return Name{Resource::kNode, node_name_};
  if (!key.starts_with(state_)) return std::nullopt;
  key.remove_prefix(state_.size());
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view object = key.substr(slash + 1);
  for (const Resource resource : source::kResources) {
    if (resource == Resource::kNode || key.substr(0, slash) != source::ResourceName(resource)) {
      continue;
    }
    const auto slashes = std::count(object.begin(), object.end(), '/');
    const bool full = !object.empty() && object.front() != '/' && object.back() != '/';
    if (!full || slashes != (KindOf(resource).namespaced ? 1 : 0)) return std::nullopt;
    return Name{resource, std::string(object)};
  }
  return std::nullopt;
}

absl::StatusOr<Item> DecodeValue(const Schema::Name& name, std::string_view value) {
  const api::KindInfo& kind = KindOf(name.resource);
  std::string converted;
  if (value.starts_with('{')) {
    absl::StatusOr<std::string> object = FromJson(kind, value);
    if (!object.ok()) return object.status();
    converted = *std::move(object);
    value = converted;
  } else if (value.starts_with(source::kEnvelopeMagic)) {
    const absl::StatusOr<std::string_view> object = FromEnvelope(kind, value);
    if (!object.ok()) return object.status();
    value = *object;
  }
  Item item;
  if (const auto error = source::ReadKey(name.resource, value, item)) return StatusOf(*error);
  if (item.key != name.object) {
    return absl::InvalidArgumentError("metadata: the object is " + Quote(item.key) +
                                      ": must be the object of the key");
  }
  if (const auto error = source::ReadChange(name.resource, value, api::IsUsedLabel, item)) {
    return StatusOf(*error);
  }
  return item;
}

}  // namespace svcmap::etcd
