// The fencing of controllers over restarts: what of it is kept in --state-dir.
#pragma once

#include <string>

#include "proxy/saved/leader_file.h"

namespace svcmap::api {

// Nobody, with a warning, if what is there cannot be read; nobody if `state_dir` is empty.
proxy::Leader LoadLeader(const std::string& state_dir);

// Warns if that fails: fencing goes on until the agent restarts.
void SaveLeader(const std::string& state_dir, const proxy::Leader& leader);

}  // namespace svcmap::api
