// Settings of the kernel that kube-proxy's configuration asks for at start (S-308, S-327..S-329).
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

// Pure. What is 0 in the configuration is left as it is.
std::vector<Sysctl> WantedSysctls(const KubeProxyConfiguration& config, int cpus);

// Where they lie.
struct SysctlPaths {
  std::string sysctls = "/proc/sys";
  std::string hash_size = "/sys/module/nf_conntrack/parameters/hashsize";
};

// Writes those that differ, in the calling thread's network namespace. A warning for each that this
// process may not write or this kernel has not; an error where the kernel refuses the value. After
// nf_conntrack_max, conntrack's hash table is made large enough for it, or there is a warning.
absl::StatusOr<std::vector<std::string>> WriteSysctls(const std::vector<Sysctl>& wanted,
                                                      const SysctlPaths& paths = {});

// How much this process is wanted to go when memory runs out; an error if it may not say so.
absl::Status WriteOomScoreAdj(int score, const std::string& path = "/proc/self/oom_score_adj");

}  // namespace svcmap::api
