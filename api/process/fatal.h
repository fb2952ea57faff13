// Logs the reason if the process exits because memory or threads are exhausted.
#pragma once

namespace svcmap::api {

// Installs handlers for the whole process. If memory cannot be allocated or a thread cannot be
// started, the process writes a log line and exits with status 1. Commits and the state file are
// consistent at any time, so the supervisor can restart the process. Any other uncaught exception
// is logged and aborts the process. `program` must outlive the process.
void LogFatalErrors(const char* program);

}  // namespace svcmap::api
