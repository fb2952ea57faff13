#include "api/cli/object_id.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/cli/text.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

constexpr KindWords kKinds[] = {
    {v1::KIND_SERVICE, "services", "service", "svc", true},
    {v1::KIND_ENDPOINT_SLICE, "endpointslices", "endpointslice", "eps", true},
    {v1::KIND_NODE, "nodes", "node", "no", false},
    {v1::KIND_SERVICE_CIDR, "servicecidrs", "servicecidr", "cidr", false},
};
constexpr KindWords kUnknownKind = {v1::KIND_UNSPECIFIED, "objects", "object", "", true};

template <typename T>
ObjectId FromMetadata(v1::Kind kind, const T& object) {
  return {kind, object.metadata().namespace_(), object.metadata().name()};
}

}  // namespace

const KindWords* FindKind(std::string_view word) {
  for (const KindWords& words : kKinds) {
    for (const std::string_view name : {words.plural, words.singular, words.short_name}) {
      if (absl::EqualsIgnoreCase({name.data(), name.size()}, {word.data(), word.size()})) {
        return &words;
      }
    }
  }
  return nullptr;
}

const KindWords& WordsOf(v1::Kind kind) {
  for (const KindWords& words : kKinds) {
    if (words.kind == kind) return words;
  }
  return kUnknownKind;
}

std::string KindList() {
  std::string text;
  for (const KindWords& words : kKinds) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", std::string(words.plural), " (",
                    std::string(words.short_name), ")");
  }
  return text;
}

std::string ObjectId::ToString() const {
  return absl::StrCat(std::string(WordsOf(kind).singular), "/",
                      name_space.empty() ? "" : OneLine(name_space) + "/", OneLine(name));
}

v1::ObjectRef ObjectId::ToRef() const {
  v1::ObjectRef ref;
  ref.set_kind(kind);
  ref.set_namespace_(name_space);
  ref.set_name(name);
  return ref;
}

ObjectId IdOf(const v1::Object& object) {
  switch (object.object_case()) {
    case v1::Object::kService:
      return FromMetadata(v1::KIND_SERVICE, object.service());
    case v1::Object::kEndpointSlice:
      return FromMetadata(v1::KIND_ENDPOINT_SLICE, object.endpoint_slice());
    case v1::Object::kNode:
      return FromMetadata(v1::KIND_NODE, object.node());
    case v1::Object::kServiceCidr:
      return FromMetadata(v1::KIND_SERVICE_CIDR, object.service_cidr());
    case v1::Object::OBJECT_NOT_SET:
      break;
  }
  return {};
}

ObjectId IdOf(const v1::ObjectResult& result) {
  return {result.kind(), result.namespace_(), result.name()};
}

absl::StatusOr<ObjectId> ParseObjectId(const KindWords& kind, std::string_view text,
                                       std::string_view name_space, bool name_required) {
  const std::string plural(kind.plural);
  const auto bad = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (!kind.namespaced && !name_space.empty()) {
    return bad("--namespace: Forbidden: ", plural, " are not namespaced");
  }
  if (text.empty() && !name_required) return ObjectId{kind.kind, std::string(name_space), ""};
  const size_t slash = text.find('/');
  const bool whole = slash != std::string_view::npos;
  const std::string_view name = whole ? text.substr(slash + 1) : text;
  const std::string_view given = whole ? text.substr(0, slash) : std::string_view();
  if (whole && !kind.namespaced) {
    return bad("name: Invalid value: ", Quote(text), ": ", plural, " are not namespaced");
  }
  if (name.empty() || (whole && given.empty()) || name.find('/') != std::string_view::npos) {
    return bad("name: Invalid value: ", Quote(text), ": must be ",
               kind.namespaced ? "NAMESPACE/NAME" : "a name");
  }
  if (whole && !name_space.empty() && given != name_space) {
    return bad("name: Invalid value: ", Quote(text), ": does not match --namespace ",
               Quote(name_space));
  }
  if (!whole && kind.namespaced && name_space.empty() && name_required) {
    return bad("name: Invalid value: ", Quote(text),
               ": must be NAMESPACE/NAME unless --namespace is set");
  }
  return ObjectId{kind.kind, std::string(whole ? given : name_space), std::string(name)};
}

}  // namespace svcmap::api
