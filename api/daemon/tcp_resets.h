// Selects the rules that reset TCP connections to endpoints that are gone (--reset-stale-tcp).
#pragma once

#include <string>

#include "proxy/ruleset/table.h"

namespace svcmap::api {

// Reads nf_conntrack_tcp_loose in the network namespace of the calling thread, and returns the
// matching rules. If the sysctl cannot be read, logs a warning and assumes the kernel's default.
proxy::TcpResets ChooseTcpResets(
    const std::string& path = "/proc/sys/net/netfilter/nf_conntrack_tcp_loose");

}  // namespace svcmap::api
