// Command-line options of svcmap-etcd, parsed and validated.
#pragma once

#include <string>
#include <vector>

#include "api/config/program_options.h"
#include "api/etcd/client.h"
#include "api/source/program.h"

namespace svcmap::etcd {

struct ProgramOptions : source::AgentOptions {
  std::vector<std::string> urls;  // Endpoints as given on the command line.
  EtcdOptions etcd;
  std::string status_prefix;  // Empty: the status is not written.
  std::string agent_address;  // tcp://HOST:PORT in the status, or empty.
};

api::Parsed<ProgramOptions> ParseOptions(int argc, char** argv);

}  // namespace svcmap::etcd
