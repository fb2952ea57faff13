#include "api/convert/quote.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace svcmap::api {
namespace {

bool IsContinuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Returns the first character of `text` in printable form. `length` is Utf8Length(text).
std::string Printable(std::string_view text, size_t length) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (length == 0) return absl::StrFormat("\\x%02x", first);
  if (first == '"' || first == '\\') return {'\\', text[0]};
  if (first < 0x20 || first == 0x7f) return absl::StrFormat("\\u%04x", first);
  if (first == 0xc2 &&
      static_cast<uint8_t>(text[1]) < 0xa0) {  // C1 control characters, including CSI (U+009B).
    return absl::StrFormat("\\u%04x", static_cast<uint8_t>(text[1]));
  }
  return std::string(text.substr(0, length));
}

// Appends at most kMaxQuotedBytes bytes to `out`. Returns whether all of `text` fits.
bool AppendEscaped(std::string_view text, std::string& out) {
  size_t written = 0;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string printable = Printable(text, length);
    if (written + printable.size() > kMaxQuotedBytes) return false;
    out += printable;
    written += printable.size();
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return true;
}

}  // namespace

size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(byte(i))) return 0;
  }
  if (first == 0xe0 && byte(1) < 0xa0) return 0;   // Overlong encoding.
  if (first == 0xed && byte(1) >= 0xa0) return 0;  // Surrogate code point.
  if (first == 0xf0 && byte(1) < 0x90) return 0;   // Overlong encoding.
  if (first == 0xf4 && byte(1) >= 0x90) return 0;  // Code point above U+10FFFF.
  return length;
}

std::string Escape(std::string_view text) {
  std::string out;
  if (!AppendEscaped(text, out)) out += "...";
  return out;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  const bool complete = AppendEscaped(text, out);
  absl::StrAppend(&out, "\"", complete ? "" : "...");
  return out;
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

}  // namespace svcmap::api
