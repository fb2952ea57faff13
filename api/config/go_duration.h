// Durations in Go's notation: "30s", "1h15m0s", "1.5h", "-250ms". Pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace svcmap::api {

// Accepts the same text as Go's time.ParseDuration: numbers with the units ns, us (or µs), ms, s, m
// and h, and "0". Returns nullopt for any other text and for durations of more than about 292
// years.
std::optional<std::chrono::nanoseconds> ParseGoDuration(std::string_view text);

// Formats like Go's Duration.String: "1h15m0s", "1m30s", "1.5s", "250ms", "0s".
std::string FormatGoDuration(std::chrono::nanoseconds duration);

}  // namespace svcmap::api
