#include "api/cli/text.h"

#include <algorithm>

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

size_t Width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Shorten(std::string_view text, size_t width) {
  constexpr std::string_view kEnd = "...";
  if (Width(text) <= width) return std::string(text);
  const size_t kept = width - std::min(width, kEnd.size());
  size_t bytes = 0;
  for (size_t i = 0; i < kept; ++i) bytes += std::max<size_t>(1, Utf8Length(text.substr(bytes)));
  return absl::StrCat(std::string(text.substr(0, bytes)),
                      std::string(kEnd.substr(0, std::min(width, kEnd.size()))));
}

std::string ShortenMiddle(std::string_view text, size_t width) {
  constexpr std::string_view kMiddle = "...";
  constexpr size_t kShortest = 7;  // Two characters on each side.
  const bool ascii = Width(text) == text.size();
  if (text.size() <= width || !ascii || width < kShortest) return Shorten(text, width);
  const size_t end = (width - kMiddle.size()) / 2;
  const size_t begin = width - kMiddle.size() - end;
  return absl::StrCat(std::string(text.substr(0, begin)), std::string(kMiddle),
                      std::string(text.substr(text.size() - end)));
}

std::string FitLines(std::string_view page, size_t columns) {
  if (columns == 0) return std::string(page);
  constexpr size_t kWidestLabel = 32;
  constexpr size_t kNarrowest = 20;
  std::string fitted;
  while (!page.empty()) {
    const size_t length = std::min(page.find('\n'), page.size());
    std::string_view line = page.substr(0, length);
    page.remove_prefix(std::min(length + 1, page.size()));
    const size_t start = std::min(line.find_first_not_of(' '), line.size());
    const size_t gap = line.find("  ", start);
    const size_t value = line.find_first_not_of(' ', gap);
    const bool labelled = gap != line.npos && value != line.npos && value <= kWidestLabel;
    const size_t indent = labelled ? value : start + 2;
    size_t first = labelled ? value : start;  // Lines are broken only after this position.
    size_t room = columns;
    while (Width(line) > room) {
      size_t end = line.rfind(' ', room);
      if (end == line.npos || end <= first) end = line.find(' ', std::max(room, first));
      if (end == line.npos) break;
      absl::StrAppend(&fitted, std::string(line.substr(0, end)), "\n", std::string(indent, ' '));
      line.remove_prefix(end + 1);
      first = 0;
      room = std::max(columns, indent + kNarrowest) - indent;
    }
    absl::StrAppend(&fitted, std::string(line), "\n");
  }
  return fitted;
}

std::string CountText(uint64_t count, std::string_view noun) {
  return absl::StrFormat("%d %s%s", count, noun, count == 1 ? "" : "s");
}

}  // namespace svcmap::api
