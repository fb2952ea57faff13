#include "api/convert/projection.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/field_reader.h"
#include "api/convert/quote.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format.h"
#include "google/protobuf/wire_format_lite.h"

namespace svcmap::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormat;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr size_t kMaxFields = 32;  // Of a message in the schema.
constexpr char kTruncated[] = "the encoding is damaged or truncated";
constexpr char kNotUtf8[] = "must be valid UTF-8";

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

bool IsUsedAnnotation(std::string_view key) {
  return key == "endpoints.kubernetes.io/last-change-trigger-time" ||
         key == "svcmap/reset-stale-tcp" || key == kEndpointPickAnnotation ||
         key == kPickTableSizeAnnotation;
}

// Strings that the agent stores but does not use.
bool IsUnusedString(const FieldDescriptor& field) { return field.name() == "zone"; }

// Returns true if an empty value has the same meaning as an absent field.
bool IsDefault(const FieldDescriptor& field) {
  return !field.has_presence() && !field.is_repeated();
}

class Projector {
 public:
  explicit Projector(LabelFilter keep_label) : keep_label_(keep_label) {}

  // Returns false after an error, with the path in error().
  bool Message(std::string_view bytes, const Descriptor& type, std::string& out) {
    CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                        static_cast<int>(bytes.size()));
    std::array<uint32_t, kMaxFields> counts{};
    while (const uint32_t tag = in.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (field == nullptr) {
        if (!WireFormatLite::SkipField(&in, tag)) return Fail(kTruncated);
        continue;
      }
      const uint32_t place = counts[static_cast<size_t>(field->index())]++;
      if (!Field(in, tag, *field, out)) return InField(*field, place);
    }
    return in.ConsumedEntireMessage() || Fail(kTruncated);
  }

  ProjectionError TakeError() { return std::move(error_); }

 private:
  bool Field(CodedInputStream& in, uint32_t tag, const FieldDescriptor& field, std::string& out) {
    if (tag != WireFormat::MakeTag(&field)) return Fail("has another type");
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT) {
      uint64_t value = 0;
      if (!in.ReadVarint64(&value)) return Fail(kTruncated);
      if (value == 0 && IsDefault(field)) return true;
      AppendVarint(tag, out);
      AppendVarint(value, out);
      return true;
    }
    std::string_view bytes;
    if (!ReadBytes(in, bytes)) return Fail(kTruncated);
    if (field.type() == FieldDescriptor::TYPE_STRING) return String(tag, field, bytes, out);
    if (field.is_map()) return Entry(tag, field, bytes, out);
    std::string message;
    const bool good = Message(bytes, *field.message_type(), message);
    if (!message.empty() || field.is_repeated()) AppendField(tag, message, out);
    return good;
  }

  bool String(uint32_t tag, const FieldDescriptor& field, std::string_view text, std::string& out) {
    if (!IsUtf8(text)) return IsUnusedString(field) || Fail(kNotUtf8);
    if (text.empty() && IsDefault(field)) return true;
    AppendField(tag, text, out);
    return true;
  }

  // One label or annotation.
  bool Entry(uint32_t tag, const FieldDescriptor& field, std::string_view bytes, std::string& out) {
    FieldReader parts(bytes);
    std::string_view key;
    std::string_view value;
    while (parts.Next()) {
      if (parts.number() == 1) key = parts.value();
      if (parts.number() == 2) value = parts.value();
    }
    if (!parts.good()) return Fail(kTruncated);
    const bool label = field.name() == "labels";
    if (!(label ? keep_label_ : IsUsedAnnotation)(key)) return true;
    if (!IsUtf8(value)) return !label || Fail(kNotUtf8);
    AppendField(tag, bytes, out);
    return true;
  }

  bool Fail(const char* detail) {
    error_.detail = detail;
    return false;
  }

  bool InField(const FieldDescriptor& field, uint32_t place) {
    std::string path = field.json_name();
    if (field.is_repeated() && !field.is_map()) absl::StrAppend(&path, "[", place, "]");
    error_.field = error_.field.empty() ? path : absl::StrCat(path, ".", error_.field);
    return false;
  }

  const LabelFilter keep_label_;
  ProjectionError error_;
};

}  // namespace

bool IsUsedLabel(std::string_view key) {
  return key == kServiceNameLabel || key == "service.kubernetes.io/headless" ||
         key == "service.kubernetes.io/service-proxy-name" || key == "topology.kubernetes.io/zone";
}

void AppendField(uint32_t tag, std::string_view bytes, std::string& out) {
  AppendVarint(tag, out);
  AppendVarint(bytes.size(), out);
  out += bytes;
}

std::optional<ProjectionError> Project(std::string_view bytes, const Descriptor& type,
                                       LabelFilter keep_label, std::string& projected) {
  Projector projector(keep_label);
  if (projector.Message(bytes, type, projected)) return std::nullopt;
  return projector.TakeError();
}

}  // namespace svcmap::api
