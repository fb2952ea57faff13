#include "api/cli/object_id.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/cli/text.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

constexpr KindInfo kUnknownKind = {
    .proto = v1::KIND_UNSPECIFIED, .singular = "object", .plural = "objects", .namespaced = true};

}  // namespace

const KindInfo* FindKindWord(std::string_view word) {
  for (const KindInfo& kind : kKinds) {
    for (const std::string_view name : {kind.plural, kind.singular, kind.short_name}) {
      if (absl::EqualsIgnoreCase({name.data(), name.size()}, {word.data(), word.size()})) {
        return &kind;
      }
    }
  }
  return nullptr;
}

const KindInfo& WordsOf(v1::Kind kind) {
  const KindInfo* known = FindKind(kind);
  return known == nullptr ? kUnknownKind : *known;
}

std::string KindList() {
  std::string text;
  for (const KindInfo& words : kKinds) {
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
  const KindInfo* kind = FindKindOfField(object.object_case());
  if (kind == nullptr) return {};
  const v1::ObjectMeta& metadata = *FindMetadata(object);
  return {kind->proto, metadata.namespace_(), metadata.name()};
}

ObjectId IdOf(const v1::ObjectResult& result) {
  return {result.kind(), result.namespace_(), result.name()};
}

absl::StatusOr<ObjectId> ParseObjectId(const KindInfo& kind, std::string_view text,
                                       std::string_view name_space, bool name_required) {
  const std::string plural(kind.plural);
  const auto bad = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (!kind.namespaced && !name_space.empty()) {
    return bad("--namespace: Forbidden: ", plural, " are not namespaced");
  }
  if (text.empty() && !name_required) return ObjectId{kind.proto, std::string(name_space), ""};
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
  const bool by_default = !whole && kind.namespaced && name_space.empty();
  return ObjectId{kind.proto,
                  std::string(whole        ? given
                              : by_default ? kDefaultNamespace
                                           : name_space),
                  std::string(name)};
}

}  // namespace svcmap::api
