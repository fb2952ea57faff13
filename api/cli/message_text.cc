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
Json ToJson(const Value& value) {
  using Reflection = google::protobuf::Reflection;
  switch (value.field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return value.Get(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_BOOL:
      return value.Get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_INT32:
      return value.Get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return value.Get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return value.Get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return value.Get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_ENUM:
      return value.Get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (const auto* time = dynamic_cast<const Timestamp*>(&value.Sub())) {
        return TimeUtil::ToString(*time);
      }
      if (const auto* duration = dynamic_cast<const Duration*>(&value.Sub())) {
        return TimeUtil::ToString(*duration);
      }
      return MessageTree(value.Sub());
    default:
      return nullptr;
  }
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
      member = ToJson({message, field, kNoIndex});
      continue;
    }
    member = Json::array();
    for (int item = 0; item < message.GetReflection()->FieldSize(message, &field); ++item) {
      member.push_back(ToJson({message, field, item}));
    }
  }
  return tree;
}

}  // namespace svcmap::api
