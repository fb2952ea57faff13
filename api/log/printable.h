// Finds characters that must not be written unchanged to a terminal or a log. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace svcmap::api {

// Returns the length in bytes of the UTF-8 sequence at the start of `text`. Returns 0 if `text` is
// empty or the sequence is invalid, including overlong forms, surrogates and code points above
// U+10FFFF.
size_t Utf8Length(std::string_view text);

// Returns true if the first character of `text`, which must not be empty and must start with a
// valid UTF-8 sequence, is one of:
// - control characters, including C1 control characters (U+0080 to U+009F). Terminals interpret
//   these as commands: U+009B starts an escape sequence.
// - line and paragraph separators (U+2028, U+2029).
// - characters that change the direction of the text around them (U+061C, U+200E, U+200F, U+202A to
//   U+202E, U+2066 to U+2069), so that a line reads differently from what it contains.
bool IsUnprintable(std::string_view text);

// Returns the first character of `text`, which must not be empty, in printable form. An unprintable
// character is returned as an escape sequence such as "\u202e", and a byte that is not valid UTF-8
// as "\xff". A quotation mark or backslash is returned with a preceding backslash. `length` is
// Utf8Length(text).
std::string Printable(std::string_view text, size_t length);

}  // namespace svcmap::api
