// Entry point of svcmapctl: sets up the standard streams and signals, and calls Run.
#include <sys/ioctl.h>
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

namespace {

svcmap::api::TerminalSize SizeOf(int fd) {
  winsize size = {};
  if (isatty(fd) == 0 || ioctl(fd, TIOCGWINSZ, &size) != 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

}  // namespace

int main(int argc, char** argv) {
  using svcmap::api::ExitCode;
  std::signal(SIGPIPE, SIG_IGN);  // `svcmapctl apply | head -1` must still apply all objects.
  // Disables gRPC's log, because each call returns its error as a grpc::Status.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  std::ios::sync_with_stdio(false);

  svcmap::api::FdOutput output(STDOUT_FILENO);
  std::ostream out(&output);
  std::cerr.tie(&out);  // Keeps both streams in order on a terminal.
  const std::vector<std::string> args(argv + 1, argv + argc);
  int code = svcmap::api::Run(args, std::cin, out, std::cerr, SizeOf(STDOUT_FILENO));
  out.flush();
  std::cerr.tie(nullptr);
  if (output.error() != 0 && output.error() != EPIPE) {
    std::cerr << "error: cannot write to standard output: " << std::strerror(output.error())
              << "; the output is incomplete\n";
    if (code == 0) code = static_cast<int>(ExitCode::kIncomplete);
  }
  return code;
}
