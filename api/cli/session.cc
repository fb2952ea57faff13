#include "api/cli/session.h"

#include <ostream>

#include "absl/strings/str_cat.h"
#include "api/cli/text.h"

namespace svcmap::api {

void Session::Error(std::string_view text) const { err << "error: " << OneLine(text) << '\n'; }
void Session::Warn(std::string_view text) const { err << "warning: " << OneLine(text) << '\n'; }
void Session::Note(std::string_view text) const { err << "note: " << OneLine(text) << '\n'; }

ExitCode Session::Refuse(std::string_view text) const {
  Error(text);
  return ExitCode::kIncomplete;
}

std::string CallProblem(const absl::Status& status, const std::string& address) {
  if (absl::IsUnavailable(status)) {
    return absl::StrCat("cannot reach the agent at ", address, ": ", status.message());
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::StrCat("no response from the agent at ", address, ": ", status.message());
  }
  return absl::StrCat("the agent at ", address, " rejected the call: ", status.message());
}

ExitCode Session::CallFailed(const absl::Status& status, const std::string& sent) const {
  if (!bundle.empty()) return Refuse(absl::StrCat("bundle ", bundle, ": ", status.message()));
  const bool unreachable = absl::IsUnavailable(status);
  const bool no_response = absl::IsDeadlineExceeded(status);
  std::string text = CallProblem(status, address);
  if (!sent.empty()) {
    absl::StrAppend(&text, "; ", no_response ? "the agent may have processed the " : "", sent,
                    unreachable   ? " not sent"
                    : no_response ? "; sending the request again is safe"
                                  : " not processed");
  }
  Error(text);
  return unreachable || no_response ? ExitCode::kUnreachable : ExitCode::kCallRejected;
}

}  // namespace svcmap::api
