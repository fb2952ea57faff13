#include "api/log/log_value.h"

#include "api/log/printable.h"

namespace svcmap::api {

std::string LogValue(std::string_view text) {
  std::string quoted = "\"";
  bool plain = !text.empty();
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = Utf8Length(rest);
    const std::string printable = rest[0] == '\n' ? "\\n" : Printable(rest, length);
    plain = plain && printable == rest.substr(0, length) && rest[0] != ' ' && rest[0] != '=';
    quoted += printable;
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  return plain ? std::string(text) : quoted + '"';
}

}  // namespace svcmap::api
