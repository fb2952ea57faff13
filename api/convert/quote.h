// Quotes untrusted text for messages. Untrusted text can be long or contain terminal escape
// sequences. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace svcmap::api {

inline constexpr size_t kMaxQuotedBytes = 64;

// Returns `text` as a JSON string with at most kMaxQuotedBytes bytes between the quotation marks.
// "..." after the closing quotation mark indicates truncation. Unprintable characters and bytes
// that are not valid UTF-8 are escaped (api/log/printable.h).
std::string Quote(std::string_view text);

// Like Quote, but without quotation marks.
std::string Escape(std::string_view text);

// Returns true if `text` is valid UTF-8.
bool IsUtf8(std::string_view text);

}  // namespace svcmap::api
