// Facts about the machine, kernel and tools that influence results. The facts are written to
// machine.json in the directory of the samples file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace svcmap::bench {

struct MachineContext {
  std::vector<std::string> command_line;
  std::string svcmapd;  // Path of the svcmapd binary. Its version is recorded.
  // Description of the CPU pinning, for example "proxies on CPU 1, load generator on CPU 0" or
  // "none".
  std::string pinning;
};

// Writes the facts as JSON. Facts that are not available on this machine are omitted.
absl::Status WriteMachine(const std::string& path, const MachineContext& context);

}  // namespace svcmap::bench
