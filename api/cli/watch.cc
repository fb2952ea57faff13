// Implements `svcmapctl watch`.
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/cli/commands.h"
#include "api/cli/message_text.h"
#include "api/cli/watch_text.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {

ExitCode Execute(const WatchOptions& options, Session& session) {
  const absl::Status status = session.client.Watch([&](const v1::WatchEvent& event) {
    const bool json = options.output == OutputFormat::kJson;
    // Flushes after each event, even if standard output is a pipe.
    session.out << (json ? JsonLine(MessageTree(event)) : WatchText(event)) << std::flush;
    return session.out.good();  // Stops when standard output is closed.
  });
  return status.ok() ? ExitCode::kOk : session.CallFailed(status);
}

}  // namespace svcmap::api
