// Implements `svcmapctl watch`.
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/cli/commands.h"
#include "api/cli/message_text.h"
#include "api/cli/watch_text.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {

ExitCode Execute(const WatchOptions& options, Session& session) {
  // Flushes after each event, even if standard output is a pipe. Also detects a closed standard
  // output while no event arrives.
  const auto flush = [&] { return session.out.flush().good(); };
  const auto print = [&](const v1::WatchEvent& event) {
    const bool json = options.output == OutputFormat::kJson;
    session.out << (json ? JsonLine(MessageTree(event)) : WatchText(event));
    return flush();
  };
  const absl::Status status = session.client.Watch(print, flush);
  return status.ok() ? ExitCode::kOk : session.CallFailed(status);
}

}  // namespace svcmap::api
