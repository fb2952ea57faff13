#include "api/cli/text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "api/convert/quote.h"
#include "api/log/printable.h"
#include "google/protobuf/util/time_util.h"

namespace svcmap::api {

using google::protobuf::util::TimeUtil;

std::string OneLine(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (character == "\n") {
      out += "\\n";
    } else if (length == 0 || IsUnprintable(character)) {
      for (const char c : character)
        absl::StrAppendFormat(&out, "\\x%02x", static_cast<uint8_t>(c));
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration({text.data(), text.size()}, &duration) ||
      duration < absl::Milliseconds(1) || duration > absl::Hours(24 * 366)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid value: ", Quote(text),
                     ": must be a duration between 1ms and one year, such as 10s or 1m30s"));
  }
  return absl::ToChronoMilliseconds(duration);
}

std::string DurationText(std::chrono::milliseconds duration) {
  return absl::FormatDuration(absl::FromChrono(duration));
}

std::string DurationText(const google::protobuf::Duration& duration) {
  const double milliseconds =
      static_cast<double>(duration.seconds()) * 1e3 + duration.nanos() / 1e6;
  if (milliseconds < 10) return absl::StrFormat("%.2f ms", milliseconds);
  if (milliseconds < 1000) return absl::StrFormat("%.1f ms", milliseconds);
  return absl::StrFormat("%.1f s", milliseconds / 1e3);
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  if (time.seconds() < TimeUtil::kTimestampMinSeconds ||
      time.seconds() > TimeUtil::kTimestampMaxSeconds) {
    return "(invalid time)";
  }
  return TimeUtil::ToString(TimeUtil::SecondsToTimestamp(time.seconds()));
}

std::string BytesText(size_t bytes) {
  if (bytes < 100'000) return absl::StrCat(bytes, " bytes");
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

std::string CountText(uint64_t count, std::string_view noun) {
  return absl::StrFormat("%d %s%s", count, noun, count == 1 ? "" : "s");
}

}  // namespace svcmap::api
