// A lower bound for the push API: a gRPC server that answers each batch of a Push stream with an
// Ack and does nothing else. Runs in a process of its own, as svcmapd does.
#pragma once

#include <string>

namespace svcmap::bench {

// Listens on the Unix socket `path` until the process receives SIGTERM. Returns the exit code.
int RunEchoServer(const std::string& path);

}  // namespace svcmap::bench
