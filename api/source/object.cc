#include "api/source/object.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/field_reader.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::source {
namespace {

using api::FieldReader;
using kube::wire::ObjectMeta;
using kube::wire::Unknown;

constexpr int kMetadataFieldNumber = 1;  // The same in objects of all kinds.

}  // namespace

std::optional<Envelope> OpenEnvelope(std::string_view bytes) {
  if (!bytes.starts_with(kEnvelopeMagic)) return std::nullopt;
  FieldReader fields(bytes.substr(kEnvelopeMagic.size()));
  Envelope envelope;
  bool understood = true;
  while (fields.Next()) {
    if (fields.IsBytes(Unknown::kTypeMetaFieldNumber)) {
      understood = understood && ParseWire(fields.bytes(), envelope.type);
    } else if (fields.IsBytes(Unknown::kRawFieldNumber)) {
      envelope.raw = fields.bytes();
    } else if (fields.IsBytes(Unknown::kContentEncodingFieldNumber)) {
      understood = understood && fields.bytes().empty();
    }
  }
  if (!understood || !fields.good()) return std::nullopt;
  return envelope;
}

std::optional<ObjectMeta> ReadMetadata(std::string_view object) {
  ObjectMeta metadata;
  FieldReader fields(object);
  while (fields.Next()) {
    if (fields.IsBytes(kMetadataFieldNumber) && !ParseWire(fields.bytes(), metadata)) {
      return std::nullopt;
    }
  }
  if (!fields.good()) return std::nullopt;
  return metadata;
}

std::optional<ObjectError> ReadKey(Resource resource, std::string_view object, Item& item) {
  std::optional<ObjectMeta> metadata;
  if (object.size() <= kMaxObjectBytes) metadata = ReadMetadata(object);
  if (!metadata) return ObjectError{"", "cannot be decoded"};
  item.resource_version = std::move(*metadata->mutable_resource_version());
  if (metadata->name().empty()) return ObjectError{"metadata.name", "Required value"};
  if (!KindOf(resource).namespaced) {
    item.key = metadata->name();
  } else if (metadata->namespace_().empty()) {
    return ObjectError{"metadata.namespace", "Required value"};
  } else {
    item.key = absl::StrCat(metadata->namespace_(), "/", metadata->name());
  }
  return std::nullopt;
}

std::optional<ObjectError> ReadChange(Resource resource, std::string_view object,
                                      api::LabelFilter keep_label, Item& item) {
  const auto* field = v1::Change::descriptor()->FindFieldByNumber(KindOf(resource).field);
  std::string projected;
  if (const auto error = api::Project(object, *field->message_type(), keep_label, projected)) {
    return ObjectError{error->field, error->detail};
  }
  constexpr size_t kMaxHeadBytes = 8;  // Maximum size of the tag and the length.
  item.change.reserve(kMaxHeadBytes + projected.size());
  api::AppendField(static_cast<uint32_t>(field->number()) << 3 | 2, projected, item.change);
  return std::nullopt;
}

}  // namespace svcmap::source
