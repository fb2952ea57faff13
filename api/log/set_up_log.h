// Sets up the logger of svcmapd and svcmap-kube. Every line is a lower-case event followed by
// `key=value` fields (api/log/log_value.h).
#pragma once

namespace svcmap::api {

// Logs to standard error: info at `verbosity` 0, debug at 1, trace from 2.
void SetUpLog(int verbosity);

}  // namespace svcmap::api
