#include "api/kube/wire/item.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"

namespace svcmap::kube {
namespace {

constexpr size_t kMaxOneLine = 512;

std::string JoinedField(std::string_view where, std::string_view field) {
  if (where.empty() || field.empty()) return absl::StrCat(std::string(where), std::string(field));
  return absl::StrCat(std::string(where), ".", std::string(field));
}

}  // namespace

const api::ManifestKind& KindOf(Resource resource) {
  switch (resource) {
    case Resource::kServices:
      return *api::FindManifestKind("v1", "Service");
    case Resource::kEndpointSlices:
      return *api::FindManifestKind("discovery.k8s.io/v1", "EndpointSlice");
    case Resource::kNode:
      return *api::FindManifestKind("v1", "Node");
    case Resource::kServiceCidrs:
      break;
  }
  return *api::FindManifestKind("networking.k8s.io/v1", "ServiceCIDR");
}

v1::ObjectMeta& MetadataOf(Resource resource, v1::Object& object) {
  switch (resource) {
    case Resource::kServices:
      return *object.mutable_service()->mutable_metadata();
    case Resource::kEndpointSlices:
      return *object.mutable_endpoint_slice()->mutable_metadata();
    case Resource::kNode:
      return *object.mutable_node()->mutable_metadata();
    case Resource::kServiceCidrs:
      break;
  }
  return *object.mutable_service_cidr()->mutable_metadata();
}

bool KeepsLabel(Resource resource, std::string_view key) {
  if (resource == Resource::kEndpointSlices) {
    return key == "kubernetes.io/service-name" || key == "service.kubernetes.io/headless";
  }
  return resource == Resource::kNode && key == "topology.kubernetes.io/zone";
}

bool KeepsAnnotation(Resource resource, std::string_view key) {
  return resource == Resource::kEndpointSlices &&
         key == "endpoints.kubernetes.io/last-change-trigger-time";
}

std::optional<ObjectError> SetKey(Resource resource, Item& item) {
  const v1::ObjectMeta& metadata = MetadataOf(resource, item.object);
  if (metadata.name().empty()) return ObjectError{"metadata.name", "Required value"};
  if (!KindOf(resource).namespaced) {
    item.key = metadata.name();
  } else if (metadata.namespace_().empty()) {
    return ObjectError{"metadata.namespace", "Required value"};
  } else {
    item.key = absl::StrCat(metadata.namespace_(), "/", metadata.name());
  }
  return std::nullopt;
}

absl::Status WireError(Resource resource, std::string_view where, std::string_view what) {
  return absl::DataLossError(absl::StrCat(std::string(ResourceName(resource)), ": ",
                                          std::string(where), where.empty() ? "" : ": ",
                                          std::string(what)));
}

absl::Status WireError(Resource resource, std::string_view where, const ObjectError& error) {
  return WireError(resource, JoinedField(where, error.field), error.reason);
}

std::optional<WatchEvent::Type> ParseEventType(std::string_view type) {
  if (type == "ADDED") return WatchEvent::Type::kAdded;
  if (type == "MODIFIED") return WatchEvent::Type::kModified;
  if (type == "DELETED") return WatchEvent::Type::kDeleted;
  if (type == "BOOKMARK") return WatchEvent::Type::kBookmark;
  if (type == "ERROR") return WatchEvent::Type::kError;
  return std::nullopt;
}

bool IsKind(std::string_view kind, std::string_view api_version, Resource resource,
            std::string_view suffix) {
  const api::ManifestKind& wanted = KindOf(resource);
  if (!api_version.empty() && api_version != wanted.api_version) return false;
  return kind.empty() ||
         (kind.starts_with(wanted.name) && kind.substr(wanted.name.size()) == suffix);
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const size_t length = api::Utf8Length(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string OneLine(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(api::Utf8Length(text), 1);
    const std::string_view character = text.substr(0, length);
    line += character == "\"" || character == "\\" ? std::string(character)
            : character == "\n"                    ? " "
                                                   : api::Escape(character);
    if (line.size() > kMaxOneLine) return line + "...";
    text.remove_prefix(length);
  }
  return line;
}

}  // namespace svcmap::kube
