// Text from outside, made fit for a message: what a controller wrote may be long, or hold terminal
// escapes. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace svcmap::api {

inline constexpr size_t kMaxQuotedBytes = 64;

// `text` as JSON would write it, in quotes. At most 64 bytes stand between them; "..." follows the
// closing quote if something was left out. Control characters and bytes that are not UTF-8 are
// escaped.
std::string Quote(std::string_view text);

// The same without the quotes.
std::string Escape(std::string_view text);

// Bytes of the UTF-8 sequence that `text` begins with; 0 if it begins with something else, or is
// empty. Overlong forms, surrogates and code points over U+10FFFF are something else.
size_t Utf8Length(std::string_view text);

}  // namespace svcmap::api
