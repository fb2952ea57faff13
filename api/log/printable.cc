#include "api/log/printable.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace svcmap::api {
namespace {

bool IsContinuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Returns the code point of a UTF-8 sequence, which must be one valid character. A sequence of one
// byte has the value of the byte.
uint32_t CodePoint(std::string_view sequence) {
  const auto first = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) return first;
  uint32_t code = first & (0x7f >> sequence.size());
  for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<uint8_t>(c) & 0x3f);
  return code;
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

bool IsUnprintable(std::string_view text) {
  const uint32_t code = CodePoint(text.substr(0, Utf8Length(text)));
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c ||
         (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

std::string Printable(std::string_view text, size_t length) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (length == 0) return absl::StrFormat("\\x%02x", first);
  if (first == '"' || first == '\\') return {'\\', text[0]};
  if (IsUnprintable(text)) return absl::StrFormat("\\u%04x", CodePoint(text.substr(0, length)));
  return std::string(text.substr(0, length));
}

}  // namespace svcmap::api
