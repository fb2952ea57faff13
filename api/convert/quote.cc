#include "api/convert/quote.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "api/log/printable.h"

namespace svcmap::api {
namespace {

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
  constexpr size_t kWord = sizeof(uint64_t);
  const auto is_ascii = [&](size_t first) {
    uint64_t word;
    std::memcpy(&word, text.data() + first, kWord);
    return (word & 0x8080808080808080) == 0;
  };
  for (size_t i = 0; i < text.size();) {
    if (text.size() - i >= kWord) {
      if (is_ascii(i)) {
        i += kWord;
        continue;
      }
    } else if (text.size() >= kWord && is_ascii(text.size() - kWord)) {
      return true;
    }
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
