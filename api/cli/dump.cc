// Implements `svcmapctl dump`.
#include <ostream>
#include <string>
#include <string_view>

#include "api/cli/commands.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

// Escapes control characters except line breaks and tabs.
std::string EscapeText(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t end = text.find_first_of("\n\t");
    out += OneLine(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += text[end];
    text.remove_prefix(end + 1);
  }
}

}  // namespace

ExitCode RunDump(const Options& options, Session& session) {
  const absl::Status status = session.reader.Dump(options.dump, [&](const std::string& text) {
    session.out << EscapeText(text);
    return session.out.good();  // Stops when standard output is closed.
  });
  return status.ok() ? ExitCode::kOk : session.CallFailed(status);
}

}  // namespace svcmap::api
