#include "api/convert/kinds.h"

#include <algorithm>

namespace svcmap::api {
namespace {

template <typename Matches>
const KindInfo* FindKindIf(Matches matches) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(), matches);
  return found == kKinds.end() ? nullptr : found;
}

}  // namespace

const KindInfo* FindKind(v1::Kind kind) {
  return FindKindIf([kind](const KindInfo& info) { return info.proto == kind; });
}

const KindInfo* FindKindOfField(int field) {
  return FindKindIf([field](const KindInfo& info) { return info.field == field; });
}

std::string_view GroupOf(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

const KindInfo* FindKind(std::string_view api_version, std::string_view name) {
  const std::string_view group = GroupOf(api_version);
  return FindKindIf([&](const KindInfo& info) { return info.name == name && info.group == group; });
}

google::protobuf::Message& MutableMessage(const KindInfo& kind, v1::Object& object) {
  const auto* field = v1::Object::descriptor()->FindFieldByNumber(kind.field);
  return *v1::Object::GetReflection()->MutableMessage(&object, field);
}

}  // namespace svcmap::api
