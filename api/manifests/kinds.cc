#include "api/manifests/kinds.h"

namespace svcmap::api {
namespace {

constexpr ManifestKind kKinds[] = {
    {"Service", "", "v1", true, v1::Object::kService},
    {"EndpointSlice", "discovery.k8s.io", "discovery.k8s.io/v1", true, v1::Object::kEndpointSlice},
    {"Node", "", "v1", false, v1::Object::kNode},
    {"ServiceCIDR", "networking.k8s.io", "networking.k8s.io/v1", false, v1::Object::kServiceCidr},
};

}  // namespace

const ManifestKind* FindManifestKind(std::string_view api_version, std::string_view kind) {
  const size_t slash = api_version.find('/');
  const std::string_view group =
      slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
  for (const ManifestKind& known : kKinds) {
    if (known.name == kind && known.group == group) return &known;
  }
  return nullptr;
}

const ManifestKind* ManifestKindOf(const v1::Object& object) {
  for (const ManifestKind& known : kKinds) {
    if (known.field == object.object_case()) return &known;
  }
  return nullptr;
}

google::protobuf::Message& MutableMessage(const ManifestKind& kind, v1::Object& object) {
  const auto* field = v1::Object::descriptor()->FindFieldByNumber(kind.field);
  return *v1::Object::GetReflection()->MutableMessage(&object, field);
}

}  // namespace svcmap::api
