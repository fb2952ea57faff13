// What every command works with, and the words it has for failures.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "api/cli/client.h"
#include "api/cli/exit_code.h"

namespace svcmap::api {

struct Session {
  Client& client;
  std::string address;  // As given, for messages.
  std::istream& in;
  std::ostream& out;  // Results.
  std::ostream& err;  // Everything else, one line each.

  void Error(std::string_view text) const;  // "error: ..."
  void Warn(std::string_view text) const;   // "warning: ..."
  void Note(std::string_view text) const;   // "note: ..."

  // Says why a call failed, and gives the exit code for it. For calls that change something,
  // `sent` names what was to be sent ("3 objects"); empty for the others.
  ExitCode CallFailed(const absl::Status& status, std::string_view sent = "") const;
};

// "cannot reach the agent at unix:///run/svcmap/svcmap.sock: No such file or directory"
std::string CallProblem(const absl::Status& status, std::string_view address);

}  // namespace svcmap::api
