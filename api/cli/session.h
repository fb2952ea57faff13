// Input, output and error reporting shared by all commands.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "api/cli/client.h"
#include "api/cli/exit_code.h"

namespace svcmap::api {

// Size of the terminal on standard output in characters. 0 if standard output is not a terminal.
struct TerminalSize {
  size_t columns = 0;
  size_t rows = 0;
};

struct Session {
  Client& client;
  Reader& reader;       // The client, or the support bundle of --bundle.
  std::string address;  // Agent address as typed by the user, for messages.
  std::string bundle;   // Name of the support bundle, or empty.
  std::istream& in;
  std::ostream& out;  // Receives results.
  std::ostream& err;  // Receives errors, warnings and notes, one line each.
  TerminalSize screen;

  void Error(std::string_view text) const;  // "error: ..."
  void Warn(std::string_view text) const;   // "warning: ..."
  void Note(std::string_view text) const;   // "note: ..."

  // Prints an error and returns kIncomplete.
  ExitCode Refuse(std::string_view text) const;
  // Prints why a call failed and returns the exit code. For calls that change the agent's state,
  // `sent` describes the request ("3 objects"); for read-only calls, `sent` is empty.
  ExitCode CallFailed(const absl::Status& status, const std::string& sent = "") const;
};

// Example: "cannot reach the agent at unix:///run/svcmap/svcmap.sock: No such file or directory"
std::string CallProblem(const absl::Status& status, const std::string& address);

}  // namespace svcmap::api
