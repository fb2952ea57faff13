// A protobuf message as JSON or YAML for scripts: every field, defaults too, numbers as numbers
// (the standard mapping writes 64 bit ones as strings, which jq does not compare). Absent messages
// are left out. Pure functions. Not for maps, bytes and floats, which our answers do not have.
#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace svcmap::api {

std::string MessageJson(const google::protobuf::Message& message);
std::string MessageJsonLine(const google::protobuf::Message& message);  // On one line.
std::string MessageYaml(const google::protobuf::Message& message);

}  // namespace svcmap::api
