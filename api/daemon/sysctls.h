// Kernel settings that kube-proxy's configuration file defines (S-308, S-327..S-329).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

struct Sysctl {
  std::string name;  // "net.netfilter.nf_conntrack_max"
  int64_t value = 0;
  bool operator==(const Sysctl&) const = default;
};

// Returns the sysctls to write. Fields of the configuration that are 0 do not change a sysctl.
std::vector<Sysctl> DesiredSysctls(const KubeProxyConfiguration& config, int cpus);

// Paths of kernel settings in /proc and /sys, which tests replace.
struct SysctlPaths {
  std::string sysctls = "/proc/sys";
  std::string hash_size = "/sys/module/nf_conntrack/parameters/hashsize";
};

// Writes the sysctls whose value differs, in the network namespace of the calling thread. Also
// enlarges conntrack's hash table to match nf_conntrack_max. Returns a warning for each sysctl that
// the kernel does not have or that this process may not write. Returns an error if the kernel
// rejects a value.
absl::StatusOr<std::vector<std::string>> WriteSysctls(const std::vector<Sysctl>& wanted,
                                                      const SysctlPaths& paths = {});

// Writes the score by which the OOM killer selects processes, from -1000 (never) to 1000.
absl::Status WriteOomScoreAdj(int score, const std::string& path = "/proc/self/oom_score_adj");

}  // namespace svcmap::api
