// Prints a protobuf message as JSON or YAML for scripts. Prints fields with default values, but
// omits absent messages. Writes 64-bit integers as numbers, because jq cannot compare the strings
// of the standard JSON mapping. Does not support maps, bytes or floating-point fields, because
// svcmap's responses do not contain such fields. Pure functions.
#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace svcmap::api {

std::string MessageJson(const google::protobuf::Message& message);
std::string MessageJsonLine(const google::protobuf::Message& message);  // JSON on one line.
std::string MessageYaml(const google::protobuf::Message& message);

}  // namespace svcmap::api
