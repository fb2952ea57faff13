// C1 control characters. Terminals interpret them as commands: U+009B starts an escape sequence.
#pragma once

#include <string_view>

namespace svcmap::api {

// Returns true if `text` starts with a C1 control character (U+0080 to U+009F) in UTF-8.
inline bool IsC1Control(std::string_view text) {
  return text.size() >= 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) >= 0x80 &&
         static_cast<unsigned char>(text[1]) < 0xa0;
}

}  // namespace svcmap::api
