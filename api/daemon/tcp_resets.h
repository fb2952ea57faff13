// Selects the method for resetting TCP connections to removed endpoints (--reset-stale-tcp, or an
// option of a Service).
#pragma once

#include <string>

#include "proxy/ruleset/table.h"

namespace svcmap::api {

// Reads nf_conntrack_tcp_loose in the network namespace of the calling thread, and returns the
// matching method. If the sysctl cannot be read, logs the assumption of the kernel's default.
proxy::TcpResets ChooseTcpResets(
    const std::string& path = "/proc/sys/net/netfilter/nf_conntrack_tcp_loose");

}  // namespace svcmap::api
