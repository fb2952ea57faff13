// Saves the current leader, which is the controller with the highest epoch, in --state-dir. After a
// restart, svcmapd continues to reject controllers whose epoch is lower than the saved epoch.
#pragma once

#include <string>

#include "proxy/saved/leader_file.h"

namespace svcmap::api {

// Returns an empty leader if `state_dir` is empty or has no leader file. If the file cannot be
// read, logs a warning and returns an empty leader.
proxy::Leader LoadLeader(const std::string& state_dir);

// If the file cannot be written, logs a warning, and svcmapd rejects controllers with a lower epoch
// only until svcmapd restarts.
void SaveLeader(const std::string& state_dir, const proxy::Leader& leader);

}  // namespace svcmap::api
