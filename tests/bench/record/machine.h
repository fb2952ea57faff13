// What figures depend on besides the programs: the machine, its kernel and its tools. Goes beside
// the samples as machine.json.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace svcmap::bench {

struct MachineContext {
  std::vector<std::string> command_line;
  std::string svcmapd;     // Path of the program, which is asked for its version.
  std::string pinning;     // "proxies on CPU 1, load generator on CPU 0" or "none".
  std::string kube_proxy;  // The same as svcmapd; empty: it takes no part.
  std::string kube_proxy_mode;
};

// Facts that this machine does not tell are left out.
std::string MachineJson(const MachineContext& context);
absl::Status WriteMachine(const std::string& path, const MachineContext& context);

// Of "NAME<separator>VALUE" lines: the value of the first with that name, without blanks and quotes
// around it; empty if there is none.
std::string ValueOf(const std::string& text, const std::string& name, char separator);

}  // namespace svcmap::bench
