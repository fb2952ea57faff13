// Durations as Go writes them: "30s", "1h15m0s", "1.5h", "-250ms". Pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace svcmap::api {

// What Go's time.ParseDuration reads: numbers with one of the units ns, us (or µs), ms, s, m, h,
// and "0". Nothing for all else, also for more than about 292 years.
std::optional<std::chrono::nanoseconds> ParseGoDuration(std::string_view text);

// As Go's Duration.String: "1h15m0s", "1m30s", "1.5s", "250ms", "0s".
std::string FormatGoDuration(std::chrono::nanoseconds duration);

}  // namespace svcmap::api
