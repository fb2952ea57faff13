#include "api/cli/message_text.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/convert/control_character.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"

namespace svcmap::api {
namespace {

using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

constexpr int kNoIndex = -1;

// Quotes a string so that it is valid in JSON and in YAML. `text` is UTF-8, as protobuf guarantees.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (IsC1Control(text.substr(i))) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(text[++i]));
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out += '"';
}

// One field of a message, or one element of a repeated field.
struct Value {
  const Message& message;
  const FieldDescriptor& field;
  int index;  // Index in a repeated field, or kNoIndex.

  template <typename T>
  T Get(T (google::protobuf::Reflection::*single)(const Message&, const FieldDescriptor*) const,
        T (google::protobuf::Reflection::*repeated)(const Message&, const FieldDescriptor*, int)
            const) const {
    const auto& reflection = *message.GetReflection();
    return index == kNoIndex ? (reflection.*single)(message, &field)
                             : (reflection.*repeated)(message, &field, index);
  }

  const Message& Sub() const {
    const auto& reflection = *message.GetReflection();
    return index == kNoIndex ? reflection.GetMessage(message, &field)
                             : reflection.GetRepeatedMessage(message, &field, index);
  }
};

// Returns the text of a scalar, Timestamp or Duration, and "" for all other messages.
std::string Scalar(const Value& value) {
  using Reflection = google::protobuf::Reflection;
  switch (value.field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return Quoted(value.Get(&Reflection::GetString, &Reflection::GetRepeatedString));
    case FieldDescriptor::CPPTYPE_BOOL:
      return value.Get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(value.Get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(value.Get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(value.Get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(value.Get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64));
    case FieldDescriptor::CPPTYPE_ENUM:
      // GetEnum also returns a descriptor for unknown numbers.
      return Quoted(value.Get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (const auto* time = dynamic_cast<const Timestamp*>(&value.Sub())) {
        return Quoted(TimeUtil::ToString(*time));
      }
      if (const auto* duration = dynamic_cast<const Duration*>(&value.Sub())) {
        return Quoted(TimeUtil::ToString(*duration));
      }
      return "";
    default:
      return "null";
  }
}

bool IsShown(const Message& message, const FieldDescriptor& field) {
  return field.is_repeated() || !field.has_presence() ||
         message.GetReflection()->HasField(message, &field);
}

int SizeOf(const Message& message, const FieldDescriptor& field) {
  return message.GetReflection()->FieldSize(message, &field);
}

// `line` is the text that starts a new line: a line break and the indentation. An empty `line`
// puts the complete output on one line. Returns `line` with one more level of indentation.
std::string Deeper(const std::string& line) { return line.empty() ? "" : line + "  "; }

void AppendJson(const Message& message, const std::string& line, std::string& out);

void AppendJson(const Value& value, const std::string& line, std::string& out) {
  const std::string scalar = Scalar(value);
  if (!scalar.empty()) {
    out += scalar;
  } else {
    AppendJson(value.Sub(), line, out);
  }
}

void AppendJson(const Message& message, const std::string& line, std::string& out) {
  const std::string inner = Deeper(line);
  const std::string comma = line.empty() ? ", " : ",";
  std::string separator = "{";
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (!IsShown(message, field)) continue;
    absl::StrAppend(&out, separator, inner, "\"", field.json_name(), "\": ");
    separator = comma;
    if (!field.is_repeated()) {
      AppendJson(Value{message, field, kNoIndex}, inner, out);
      continue;
    }
    out += '[';
    for (int item = 0; item < SizeOf(message, field); ++item) {
      absl::StrAppend(&out, item == 0 ? "" : comma, Deeper(inner));
      AppendJson(Value{message, field, item}, Deeper(inner), out);
    }
    absl::StrAppend(&out, SizeOf(message, field) == 0 ? "" : inner, "]");
  }
  absl::StrAppend(&out, separator == "{" ? "{" : line, "}");
}

// `prefix`, for example "- " of a list item, precedes the first line, and `indent` precedes all
// other lines.
void AppendYaml(const Message& message, std::string prefix, const std::string& indent,
                std::string& out) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (!IsShown(message, field)) continue;
    absl::StrAppend(&out, prefix, field.json_name(), ":");
    prefix = indent;
    const int count = field.is_repeated() ? SizeOf(message, field) : 1;
    if (count == 0) out += " []";
    if (field.is_repeated()) out += '\n';
    for (int item = 0; item < count; ++item) {
      const Value value{message, field, field.is_repeated() ? item : kNoIndex};
      const std::string scalar = Scalar(value);
      const std::string dash = field.is_repeated() ? indent + "- " : "";
      if (!scalar.empty()) {
        absl::StrAppend(&out, field.is_repeated() ? dash : " ", scalar, "\n");
      } else if (field.is_repeated()) {
        AppendYaml(value.Sub(), dash, indent + "  ", out);
      } else {
        out += '\n';
        AppendYaml(value.Sub(), indent + "  ", indent + "  ", out);
      }
    }
  }
}

}  // namespace

std::string MessageJson(const Message& message) {
  std::string out;
  AppendJson(message, "\n", out);
  return out += '\n';
}

std::string MessageJsonLine(const Message& message) {
  std::string out;
  AppendJson(message, "", out);
  return out += '\n';
}

std::string MessageYaml(const Message& message) {
  std::string out;
  AppendYaml(message, "", "", out);
  return out;
}

}  // namespace svcmap::api
