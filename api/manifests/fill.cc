#include "api/manifests/fill.h"

#include <charconv>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/manifests/known_fields.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"

namespace svcmap::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Problem = std::optional<FillError>;
using Type = TreeNode::Type;

Problem Bad(const TreeNode& node, std::string reason) {
  return FillError{node.line, "", ShowScalar(node), std::move(reason)};
}

void Prepend(const std::string& name, std::string& path) {
  path = absl::StrCat(name, path.empty() || path[0] == '[' ? "" : ".", path);
}

// Prepends `name` to the path of `problem`. The path is built only for errors, while the recursion
// returns, so valid objects are not slowed down.
Problem Under(const std::string& name, Problem problem) {
  if (problem) Prepend(name, problem->field);
  return problem;
}

const FieldDescriptor* FindField(const Message& message, const std::string& json_name) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  // A linear search is sufficient, because the message types have at most about twelve fields.
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->json_name() == json_name) return type.field(i);
  }
  return nullptr;
}

// Reads an integer of type T, which is int32_t or uint32_t, and passes it to `set`.
template <typename T>
Problem ReadInteger(const TreeNode& node, const std::function<void(T)>& set) {
  T value = 0;
  if (node.type != Type::kNumber) return Bad(node, "must be an integer");
  const char* begin = node.text.data() + (node.text.starts_with('+') ? 1 : 0);
  const char* end = node.text.data() + node.text.size();
  if (std::is_unsigned_v<T> && *begin == '-')
    return Bad(node, "must be greater than or equal to 0");
  const auto [stop, error] = std::from_chars(begin, end, value, 10);
  if (error == std::errc::result_out_of_range) return Bad(node, "must fit into 32 bits");
  if (error != std::errc() || stop != end) return Bad(node, "must be an integer");
  set(value);
  return std::nullopt;
}

Problem FillTimestamp(const TreeNode& node, google::protobuf::Timestamp& timestamp) {
  if (node.type == Type::kString &&
      google::protobuf::util::TimeUtil::FromString(node.text, &timestamp)) {
    return std::nullopt;
  }
  return Bad(node, "must be an RFC 3339 time, such as \"2026-01-31T12:00:00Z\"");
}

// Fills a field of type map<string, string>. Objects have no other map types.
Problem FillMap(const TreeNode& node, const FieldDescriptor& field, Message& message) {
  if (node.type != Type::kMap) return Bad(node, "must be a map");
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* key_field = field.message_type()->map_key();
  const FieldDescriptor* value_field = field.message_type()->map_value();
  for (const auto& [key, value] : node.fields) {
    if (value->type != Type::kString) {
      return Under(absl::StrCat("[", Quote(key), "]"), Bad(*value, "must be a string"));
    }
    Message& entry = *reflection.AddMessage(&message, &field);
    entry.GetReflection()->SetString(&entry, key_field, key);
    entry.GetReflection()->SetString(&entry, value_field, value->text);
  }
  return std::nullopt;
}

class Filler {
 public:
  explicit Filler(std::vector<UnknownField>& unknown) : unknown_(unknown) {}

  Problem Fill(const TreeNode& node, Message& message, bool top_level) {
    if (node.type != Type::kMap) return Bad(node, "must be a map");
    for (const auto& [name, value] : node.fields) {
      const FieldDescriptor* field = FindField(message, name);
      if (field == nullptr) {
        AddUnknown(name, *value, *message.GetDescriptor(), top_level);
        continue;
      }
      if (value->type == Type::kNull) continue;
      const size_t known_before = unknown_.size();
      if (Problem problem = FillField(*value, *field, message)) {
        return Under(name, std::move(problem));
      }
      PrependToUnknown(name, known_before);
    }
    return std::nullopt;
  }

 private:
  Problem FillSubMessage(const TreeNode& node, Message& message) {
    if (message.GetDescriptor() == google::protobuf::Timestamp::descriptor()) {
      return FillTimestamp(node, static_cast<google::protobuf::Timestamp&>(message));
    }
    return Fill(node, message, /*top_level=*/false);
  }

  Problem FillList(const TreeNode& node, const FieldDescriptor& field, Message& message) {
    if (node.type != Type::kList) return Bad(node, "must be a list");
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    for (size_t i = 0; i < node.items.size(); ++i) {
      const TreeNode& item = *node.items[i];
      const size_t known_before = unknown_.size();
      Problem problem;
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        problem = FillSubMessage(item, *reflection.AddMessage(&message, &field));
      } else if (item.type != Type::kString) {
        problem = Bad(item, "must be a string");
      } else {
        reflection.AddString(&message, &field, item.text);
      }
      if (problem) return Under(absl::StrCat("[", i, "]"), std::move(problem));
      if (unknown_.size() > known_before) PrependToUnknown(absl::StrCat("[", i, "]"), known_before);
    }
    return std::nullopt;
  }

  Problem FillField(const TreeNode& node, const FieldDescriptor& field, Message& message) {
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    if (field.is_map()) return FillMap(node, field, message);
    if (field.is_repeated()) return FillList(node, field, message);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return FillSubMessage(node, *reflection.MutableMessage(&message, &field));
      case FieldDescriptor::CPPTYPE_STRING:
        if (node.type != Type::kString) return Bad(node, "must be a string");
        reflection.SetString(&message, &field, node.text);
        return std::nullopt;
      case FieldDescriptor::CPPTYPE_BOOL:
        if (node.type != Type::kBool) return Bad(node, "must be true or false");
        reflection.SetBool(&message, &field, node.text == "true");
        return std::nullopt;
      case FieldDescriptor::CPPTYPE_INT32:
        return ReadInteger<int32_t>(
            node, [&](int32_t value) { reflection.SetInt32(&message, &field, value); });
      case FieldDescriptor::CPPTYPE_UINT32:
        return ReadInteger<uint32_t>(
            node, [&](uint32_t value) { reflection.SetUInt32(&message, &field, value); });
      default:
        return Bad(node, "fields of this type are not supported in manifests");
    }
  }

  void AddUnknown(const std::string& name, const TreeNode& value,
                  const google::protobuf::Descriptor& type, bool top_level) {
    if (unknown_.size() >= kMaxUnknownFields || IsUnreadField(type, name, top_level)) return;
    unknown_.push_back({value.line, Escape(name), SimilarField(type, name)});
  }

  void PrependToUnknown(const std::string& name, size_t first) {
    for (size_t i = first; i < unknown_.size(); ++i) Prepend(name, unknown_[i].field);
  }

  std::vector<UnknownField>& unknown_;
};

}  // namespace

std::string ShowScalar(const TreeNode& node) {
  switch (node.type) {
    case Type::kNull:
      return "null";
    case Type::kBool:
      return node.text;
    case Type::kNumber:
      return Escape(node.text);
    case Type::kString:
      return Quote(node.text);
    default:
      return "";
  }
}

std::optional<FillError> FillMessage(const TreeNode& node, Message& message,
                                     std::vector<UnknownField>& unknown) {
  return Filler(unknown).Fill(node, message, /*top_level=*/true);
}

}  // namespace svcmap::api
