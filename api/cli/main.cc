// svcmapctl: standard streams, signals and the exit code around Run.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "api/cli/exit_code.h"
#include "api/cli/fd_output.h"
#include "api/cli/run.h"

int main(int argc, char** argv) {
  using svcmap::api::ExitCode;
  std::signal(SIGPIPE, SIG_IGN);  // `svcmapctl apply | head -1` shall still apply everything.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // What matters comes back as a status.
  std::ios::sync_with_stdio(false);

  svcmap::api::FdOutput output(STDOUT_FILENO);
  std::ostream out(&output);
  std::cerr.tie(&out);  // Keeps the order when both go to a terminal.
  const std::vector<std::string> args(argv + 1, argv + argc);
  int code = svcmap::api::Run(args, std::cin, out, std::cerr);
  out.flush();
  std::cerr.tie(nullptr);
  if (output.error() != 0 && output.error() != EPIPE) {
    std::cerr << "error: writing to standard output: " << std::strerror(output.error())
              << "; the output is incomplete\n";
    if (code == 0) code = static_cast<int>(ExitCode::kIncomplete);
  }
  return code;
}
