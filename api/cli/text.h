// Text for a terminal: one line, no escapes, numbers people can read. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace svcmap::api {

// `text` with line breaks, other control characters and bytes that are not UTF-8 escaped.
std::string OneLine(std::string_view text);

// "10s", "500ms", "1m30s": more than zero, at most a year. The error says what it should be.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

std::string DurationText(std::chrono::milliseconds duration);          // "1m30s"
std::string DurationText(const google::protobuf::Duration& duration);  // "1.83 ms", "12.4 s"
std::string TimeText(const google::protobuf::Timestamp& time);         // "2025-11-20T23:31:36Z"
std::string BytesText(size_t bytes);                                   // "640 bytes", "4.2 MB"

// "1 object", "3 objects"
std::string CountText(uint64_t count, std::string_view noun);

}  // namespace svcmap::api
