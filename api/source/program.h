// Parts of main() that all sources share.
#pragma once

#include <signal.h>

#include "absl/status/status.h"
#include "api/process/config_watch.h"
#include "api/source/agent_options.h"
#include "api/source/push.h"

namespace svcmap::source {

// Sets up the log, and keeps gRPC initialized until exit.
void SetUpProgram(int verbosity);

// Logs a fatal error and returns the exit code.
int Fail(const absl::Status& status);

// Blocks the signals in all threads, because the main thread receives signals with sigtimedwait.
sigset_t BlockSignals();

// Waits for SIGTERM or SIGINT, and watches the system clock for gRPC. Returns an error if `config`
// has changed, so that the process is restarted. `config` may be null.
absl::Status AwaitEnd(const sigset_t& signals, const api::ConfigWatch* config);

// `name` is the name of the program and of the controller.
PushOptions PushOptionsOf(const AgentOptions& options, const std::string& name);

}  // namespace svcmap::source
