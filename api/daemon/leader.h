// Saves the current leader, the controller with the highest epoch, in --state-dir, so that
// controllers with a lower epoch are still rejected after a restart of svcmapd.
#pragma once

#include <string>

#include "proxy/saved/leader_file.h"

namespace svcmap::api {

// Returns an empty leader if `state_dir` is empty or has no leader file. Also returns an empty
// leader, and logs a warning, if the file cannot be read.
proxy::Leader LoadLeader(const std::string& state_dir);

// Logs a warning if the file cannot be written. In that case, controllers with a lower epoch are
// rejected only until svcmapd restarts.
void SaveLeader(const std::string& state_dir, const proxy::Leader& leader);

}  // namespace svcmap::api
