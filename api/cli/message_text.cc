#include "api/cli/message_text.h"

#include <nlohmann/json.hpp>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"

namespace svcmap::api {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Replaces the strings that stand for 64-bit integers.
void UseNumbers(const Descriptor& type, Json& tree) {
  if (!tree.is_object()) return;  // A Timestamp or Duration.
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto member = tree.find(field.json_name());
    if (member == tree.end()) continue;
    const auto convert = [&field](Json& value) {
      const FieldDescriptor::CppType cpp_type = field.cpp_type();
      if (cpp_type == FieldDescriptor::CPPTYPE_MESSAGE) {
        UseNumbers(*field.message_type(), value);
      } else if (cpp_type == FieldDescriptor::CPPTYPE_INT64 ||
                 cpp_type == FieldDescriptor::CPPTYPE_UINT64) {
        value = Json::parse(value.get<std::string>());
      }
    };
    if (field.is_repeated()) {
      for (Json& value : *member) convert(value);
    } else {
      convert(*member);
    }
  }
}

}  // namespace

Json MessageTree(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for Timestamps and Durations outside their range.
  if (!MessageToJsonString(message, &json, options).ok()) return Json::object();
  Json tree = Json::parse(json);
  UseNumbers(*message.GetDescriptor(), tree);
  return tree;
}

}  // namespace svcmap::api
