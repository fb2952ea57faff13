#include "api/kube/wire/item.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::kube {
namespace {

constexpr size_t kMaxOneLine = 512;

bool KeepNoLabel(std::string_view) { return false; }

struct TypeOfObject {
  const google::protobuf::Descriptor* descriptor;
  int field;  // In v1::Change.
};

TypeOfObject ObjectType(Resource resource) {
  switch (resource) {
    case Resource::kServices:
      return {v1::Service::descriptor(), v1::Change::kServiceFieldNumber};
    case Resource::kEndpointSlices:
      return {v1::EndpointSlice::descriptor(), v1::Change::kEndpointSliceFieldNumber};
    case Resource::kNode:
      return {v1::Node::descriptor(), v1::Change::kNodeFieldNumber};
    case Resource::kServiceCidrs:
      break;
  }
  return {v1::ServiceCIDR::descriptor(), v1::Change::kServiceCidrFieldNumber};
}

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

std::optional<ObjectError> SetKey(Resource resource, std::string_view name_space,
                                  std::string_view name, Item& item) {
  if (name.empty()) return ObjectError{"metadata.name", "Required value"};
  if (!KindOf(resource).namespaced) {
    item.key = std::string(name);
  } else if (name_space.empty()) {
    return ObjectError{"metadata.namespace", "Required value"};
  } else {
    item.key = absl::StrCat(std::string(name_space), "/", std::string(name));
  }
  return std::nullopt;
}

std::optional<ObjectError> SetChange(Resource resource, std::string_view object, Item& item) {
  const auto [descriptor, field] = ObjectType(resource);
  // The label selector has already evaluated the only label of Services that svcmapd uses.
  const api::LabelFilter keep_label =
      resource == Resource::kServices ? KeepNoLabel : api::IsUsedLabel;
  std::string projected;
  if (const auto error = api::Project(object, *descriptor, keep_label, projected)) {
    return ObjectError{error->field, error->detail};
  }
  constexpr size_t kMaxHeadBytes = 8;  // Maximum size of the tag and the length.
  item.change.reserve(kMaxHeadBytes + projected.size());
  api::AppendField(static_cast<uint32_t>(field) << 3 | 2, projected, item.change);
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
