// Formats text, durations, times and counts for a terminal. Pure functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace svcmap::api {

// Escapes line breaks, other control characters and bytes that are not valid UTF-8.
std::string OneLine(std::string_view text);

// Parses "10s", "500ms" or "1m30s". Accepts 1 ms to 366 days.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

std::string DurationText(std::chrono::milliseconds duration);          // "1m30s"
std::string DurationText(const google::protobuf::Duration& duration);  // "1.83 ms", "12.4 s"
std::string TimeText(const google::protobuf::Timestamp& time);         // "2025-11-20T23:31:36Z"
std::string BytesText(size_t bytes);                                   // "640 bytes", "4.2 MB"

// Returns the number of UTF-8 characters, not bytes.
size_t Width(std::string_view text);

// Returns `text` with at most `width` characters. If `text` is longer, replaces its end with "...".
std::string Shorten(std::string_view text, size_t width);
// Like Shorten, but replaces the middle of an ASCII text, if `width` leaves two characters on each
// side.
std::string ShortenMiddle(std::string_view text, size_t width);

// Breaks lines at spaces so that they have at most `columns` characters, unless a word is longer.
// Continuation lines are aligned with the value of a line such as "  source      the client is a
// pod", or indented by two spaces. Returns `page` unchanged if `columns` is 0.
std::string FitLines(std::string_view page, size_t columns);

// "1 object", "3 objects"
std::string CountText(uint64_t count, std::string_view noun);

}  // namespace svcmap::api
