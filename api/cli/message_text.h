// Converts a protobuf message to JSON for scripts. The result contains fields with default values,
// but no absent messages. 64-bit integers are numbers, because jq cannot compare the strings of the
// standard JSON mapping. Does not support maps, bytes or floating-point fields, because svcmap's
// responses do not contain such fields. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "google/protobuf/message.h"

namespace svcmap::api {

nlohmann::ordered_json MessageTree(const google::protobuf::Message& message);

}  // namespace svcmap::api
