// Writes the kernel settings that kube-proxy's configuration file defines (S-308, S-327..S-329),
// adapts the rules to the features and settings of the kernel, and reads the connection counters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/config/kube_proxy_config.h"
#include "proxy/connections/service_connections.h"
#include "proxy/ruleset/table.h"

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

// Returns the method for resetting TCP connections to removed endpoints (--reset-stale-tcp, or an
// option of a Service). The method depends on the sysctl nf_conntrack_tcp_loose in the network
// namespace of the calling thread. If the sysctl cannot be read, logs that svcmapd assumes the
// kernel's default.
proxy::TcpResets ChooseTcpResets();

// Removes the rules for picks by hash from `ruleset`, with a warning, if the kernel does not
// support hashes. Missing support does not prevent svcmapd from starting: the Services pick
// endpoints at random.
void DropHashPicksIfUnsupported(proxy::RulesetOptions& ruleset);

// Disables counters in `ruleset`, with a warning, if the kernel rejects tables with counters.
// Missing kernel support does not prevent svcmapd from starting.
void DropCountersIfRejected(proxy::RulesetOptions& ruleset);

// Returns null if connections are not counted.
absl::StatusOr<std::unique_ptr<proxy::ConnectionReader>> OpenConnectionReader(
    const proxy::RulesetOptions& ruleset, proxy::Loop& loop);

}  // namespace svcmap::api
