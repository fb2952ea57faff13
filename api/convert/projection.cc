#include "api/convert/projection.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/convert/field_reader.h"
#include "api/convert/quote.h"
#include "api/convert/service_parts.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format.h"

namespace svcmap::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormat;
using google::protobuf::io::CodedOutputStream;

constexpr size_t kMaxFields = 32;  // Of a message in the schema.
// Tags of the fields of a map entry.
constexpr uint32_t kKeyTag = 1 << 3 | 2;
constexpr uint32_t kValueTag = 2 << 3 | 2;
constexpr char kTruncated[] = "the encoding is damaged or truncated";
constexpr char kNotUtf8[] = "must be valid UTF-8";

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

struct MessageRules;

// How one field of a message is copied. Descriptors are too slow for millions of fields.
struct FieldRule {
  const FieldDescriptor* field;
  uint32_t number;
  uint32_t tag;
  FieldDescriptor::Type type;
  bool repeated;
  bool map;
  bool labels;                  // A map whose keys a LabelFilter selects.
  bool drop_default;            // An empty value has the same meaning as an absent field.
  bool unused;                  // The agent stores the string but does not use it.
  const MessageRules* message;  // Null for scalars.

  // Returns the filter for the keys of a map.
  LabelFilter keep(LabelFilter keep_label) const { return labels ? keep_label : IsUsedAnnotation; }
};

struct MessageRules {
  std::vector<FieldRule> fields;  // Ascending by number.
};

using RulesByType = std::map<const Descriptor*, MessageRules>;

const MessageRules& AddRules(const Descriptor& type, RulesByType& known) {
  const auto [entry, added] = known.try_emplace(&type);
  if (!added) return entry->second;
  std::vector<FieldRule>& fields = entry->second.fields;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool message = field.type() == FieldDescriptor::TYPE_MESSAGE;
    fields.push_back({.field = &field,
                      .number = static_cast<uint32_t>(field.number()),
                      .tag = WireFormat::MakeTag(&field),
                      .type = field.type(),
                      .repeated = field.is_repeated(),
                      .map = field.is_map(),
                      .labels = field.name() == "labels",
                      .drop_default = !field.has_presence() && !field.is_repeated(),
                      .unused = field.name() == "zone",
                      .message = message ? &AddRules(*field.message_type(), known) : nullptr});
  }
  std::ranges::sort(fields, {}, &FieldRule::number);
  return entry->second;
}

const MessageRules& RulesOf(const Descriptor& type) {
  static std::mutex mutex;
  static auto& known = *new RulesByType();
  const std::lock_guard lock(mutex);
  return AddRules(type, known);
}

// Returns the value that a decoder reads from the varint.
uint64_t ValueOf(FieldDescriptor::Type type, uint64_t varint) {
  switch (type) {
    case FieldDescriptor::TYPE_BOOL:
      return varint != 0 ? 1 : 0;
    case FieldDescriptor::TYPE_INT32:
      return static_cast<uint64_t>(int64_t{static_cast<int32_t>(varint)});
    case FieldDescriptor::TYPE_UINT32:
      return static_cast<uint32_t>(varint);
    default:
      return varint;
  }
}

// Returns true if `bytes` is a map entry that an encoder would write, and sets its parts.
bool IsEntry(std::string_view bytes, std::string_view& key, std::string_view& value) {
  WireReader in(bytes);
  return in.ReadTag() == kKeyTag && in.ReadBytes(key) && in.ReadTag() == kValueTag &&
         in.ReadBytes(value) && in.ReadTag() == 0 && in.ended() && in.minimal();
}

// Returns true if Project would copy `bytes` unchanged, and the copy is a deterministic encoding.
bool IsProjection(std::string_view bytes, const MessageRules& type, LabelFilter keep_label) {
  WireReader in(bytes);
  const std::vector<FieldRule>& fields = type.fields;
  size_t i = 0;
  uint32_t last = 0;
  std::string_view last_key;
  while (const uint32_t tag = in.ReadTag()) {
    while (i < fields.size() && fields[i].tag < tag) ++i;
    if (i == fields.size() || fields[i].tag != tag) return false;
    const FieldRule& rule = fields[i];
    const bool again = rule.number == last;
    if (again && !rule.repeated) return false;
    last = rule.number;
    if (WireReader::IsVarint(tag)) {
      uint64_t value = 0;
      if (!in.ReadVarint(value) || ValueOf(rule.type, value) != value) return false;
      if (value == 0 && rule.drop_default) return false;
      continue;
    }
    std::string_view content;
    if (!in.ReadBytes(content) || (content.empty() && rule.drop_default)) return false;
    if (rule.message == nullptr) {
      if (!IsUtf8(content)) return false;
    } else if (rule.map) {
      std::string_view key, value;
      if (!IsEntry(content, key, value) || !rule.keep(keep_label)(key)) return false;
      if ((again && key <= last_key) || !IsUtf8(value)) return false;
      last_key = key;
    } else if ((content.empty() && !rule.repeated) ||
               !IsProjection(content, *rule.message, keep_label)) {
      return false;
    }
  }
  return in.ended() && in.minimal();
}

// Replaces the byte at `start` with the number of bytes that follow.
void SetLength(size_t start, std::string& out) {
  const size_t size = out.size() - start - 1;
  if (size < 0x80) {
    out[start] = static_cast<char>(size);
    return;
  }
  std::string length;
  AppendVarint(size, length);
  out.replace(start, 1, length);
}

class Projector {
 public:
  explicit Projector(LabelFilter keep_label) : keep_label_(keep_label) {}

  // Returns false after an error, with the path in error().
  bool Message(std::string_view bytes, const MessageRules& type, std::string& out) {
    WireReader in(bytes);
    std::array<uint32_t, kMaxFields> counts{};
    const std::vector<FieldRule>& fields = type.fields;
    size_t i = 0;
    uint32_t last = 0;          // Number of the previous known field.
    std::string_view last_key;  // Key of the previous entry of a map.
    while (const uint32_t tag = in.ReadTag()) {
      const uint32_t number = WireReader::NumberOf(tag);
      if (i == fields.size() || number < fields[i].number) i = 0;
      while (i < fields.size() && fields[i].number < number) ++i;
      if (i == fields.size() || fields[i].number != number) {
        if (!in.Skip(tag)) return Fail(kTruncated);
        continue;
      }
      const FieldRule& rule = fields[i];
      deterministic_ &= number > last || (number == last && rule.repeated);
      if (number != last) last_key = {};
      last = number;
      const uint32_t place = counts[i]++;
      if (!Field(in, tag, rule, last_key, out)) return InField(*rule.field, place);
    }
    return in.ended() || Fail(kTruncated);
  }

  // Returns true if the output is a deterministic encoding.
  bool deterministic() const { return deterministic_; }
  ProjectionError TakeError() { return std::move(error_); }

 private:
  bool Field(WireReader& in, uint32_t tag, const FieldRule& rule, std::string_view& last_key,
             std::string& out) {
    if (tag != rule.tag) return Fail("has another type");
    if (WireReader::IsVarint(tag)) {
      uint64_t value = 0;
      if (!in.ReadVarint(value)) return Fail(kTruncated);
      value = ValueOf(rule.type, value);
      if (value == 0 && rule.drop_default) return true;
      AppendVarint(tag, out);
      AppendVarint(value, out);
      return true;
    }
    std::string_view bytes;
    if (!in.ReadBytes(bytes)) return Fail(kTruncated);
    if (rule.message == nullptr) return String(rule, bytes, out);
    if (rule.map) return Entry(rule, bytes, last_key, out);
    const size_t before = out.size();
    AppendVarint(tag, out);
    const size_t start = out.size();
    out += '\0';  // The length is not known yet.
    const bool good = Message(bytes, *rule.message, out);
    if (out.size() == start + 1 && !rule.repeated) {
      out.resize(before);
    } else {
      SetLength(start, out);
    }
    return good;
  }

  bool String(const FieldRule& rule, std::string_view text, std::string& out) {
    if (!IsUtf8(text)) return rule.unused || Fail(kNotUtf8);
    if (text.empty() && rule.drop_default) return true;
    AppendField(rule.tag, text, out);
    return true;
  }

  // One label or annotation.
  bool Entry(const FieldRule& rule, std::string_view bytes, std::string_view& last_key,
             std::string& out) {
    FieldReader parts(bytes);
    std::string_view key;
    std::string_view value;
    while (parts.Next()) {
      if (parts.IsBytes(1)) key = parts.bytes();
      if (parts.IsBytes(2)) value = parts.bytes();
    }
    if (!parts.good()) return Fail(kTruncated);
    if (!rule.keep(keep_label_)(key)) return true;
    if (!IsUtf8(value)) return !rule.labels || Fail(kNotUtf8);
    deterministic_ &= last_key.empty() || last_key < key;
    last_key = key;
    AppendVarint(rule.tag, out);
    AppendVarint(2 + CodedOutputStream::VarintSize64(key.size()) + key.size() +
                     CodedOutputStream::VarintSize64(value.size()) + value.size(),
                 out);
    AppendField(kKeyTag, key, out);
    AppendField(kValueTag, value, out);
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
  bool deterministic_ = true;
  ProjectionError error_;
};

}  // namespace

std::string ServiceNameOf(const v1::ObjectMeta& slice) {
  const auto label = slice.labels().find(kServiceNameLabel);
  return label == slice.labels().end() ? "" : label->second;
}

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
                                       LabelFilter keep_label, std::string& projected,
                                       bool* deterministic) {
  const MessageRules& rules = RulesOf(type);
  // Most senders encode only fields that svcmap knows.
  if (IsProjection(bytes, rules, keep_label)) {
    projected += bytes;
    if (deterministic != nullptr) *deterministic = true;
    return std::nullopt;
  }
  Projector projector(keep_label);
  projected.reserve(projected.size() + bytes.size());
  const bool good = projector.Message(bytes, rules, projected);
  if (deterministic != nullptr) *deterministic = projector.deterministic();
  if (good) return std::nullopt;
  return projector.TakeError();
}

}  // namespace svcmap::api
