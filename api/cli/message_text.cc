#include "api/cli/message_text.h"

#include <nlohmann/json.hpp>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"

namespace svcmap::api {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

constexpr int kNoIndex = -1;

// Returns the value of a field, or of the element `index` of a repeated field.
Json ValueOf(const Message& message, const FieldDescriptor& field, int index) {
  using google::protobuf::Reflection;
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto single, auto repeated) -> decltype(auto) {
    return index == kNoIndex ? (reflection.*single)(message, &field)
                             : (reflection.*repeated)(message, &field, index);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_ENUM:
      return get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
    default:
      return nullptr;
  }
  const Message& inner = index == kNoIndex ? reflection.GetMessage(message, &field)
                                           : reflection.GetRepeatedMessage(message, &field, index);
  if (const auto* time = dynamic_cast<const Timestamp*>(&inner)) return TimeUtil::ToString(*time);
  if (const auto* time = dynamic_cast<const Duration*>(&inner)) return TimeUtil::ToString(*time);
  return MessageTree(inner);
}

bool IsShown(const Message& message, const FieldDescriptor& field) {
  return field.is_repeated() || !field.has_presence() ||
         message.GetReflection()->HasField(message, &field);
}

}  // namespace

Json MessageTree(const Message& message) {
  Json tree = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (!IsShown(message, field)) continue;
    Json& member = tree[field.json_name()];
    if (!field.is_repeated()) {
      member = ValueOf(message, field, kNoIndex);
      continue;
    }
    member = Json::array();
    for (int item = 0; item < message.GetReflection()->FieldSize(message, &field); ++item) {
      member.push_back(ValueOf(message, field, item));
    }
  }
  return tree;
}

}  // namespace svcmap::api
