#include "api/config/go_duration.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

namespace svcmap::api {

std::optional<std::chrono::nanoseconds> ParseGoDuration(std::string_view text) {
  // absl::ParseDuration accepts Go's syntax, except for the two micro sign characters.
  // absl::ParseDuration also accepts "inf", which the range check below rejects.
  const std::string plain = absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                                                {{"\u00b5s", "us"}, {"\u03bcs", "us"}});
  absl::Duration duration;
  if (!absl::ParseDuration(plain, &duration)) return std::nullopt;
  const absl::Duration limit = absl::Nanoseconds(INT64_MAX);
  if (duration > limit || duration < -limit) return std::nullopt;
  return absl::ToChronoNanoseconds(duration);
}

std::string FormatGoDuration(std::chrono::nanoseconds duration) {
  using std::chrono::hours, std::chrono::minutes, std::chrono::seconds;
  if (duration == duration.zero()) return "0s";
  const auto size = duration < duration.zero() ? -duration : duration;
  if (size < seconds(1)) return absl::FormatDuration(absl::FromChrono(duration));
  std::string text = duration < duration.zero() ? "-" : "";
  if (size >= hours(1)) absl::StrAppend(&text, size / hours(1), "h");
  if (size >= minutes(1)) absl::StrAppend(&text, size % hours(1) / minutes(1), "m");
  absl::StrAppend(&text, size % minutes(1) / seconds(1));
  std::string part = absl::StrFormat(".%09d", (size % seconds(1)).count());
  part.erase(part.find_last_not_of("0.") + 1);
  return text + part + "s";
}

}  // namespace svcmap::api
