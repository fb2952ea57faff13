#include "api/cli/session.h"

#include <ostream>

#include "absl/strings/str_cat.h"
#include "api/cli/text.h"

namespace svcmap::api {

void Session::Error(std::string_view text) const { err << "error: " << OneLine(text) << '\n'; }
void Session::Warn(std::string_view text) const { err << "warning: " << OneLine(text) << '\n'; }
void Session::Note(std::string_view text) const { err << "note: " << OneLine(text) << '\n'; }

std::string CallProblem(const absl::Status& status, std::string_view address) {
  const std::string at(address);
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return absl::StrCat("cannot reach the agent at ", at, ": ", message);
    case absl::StatusCode::kDeadlineExceeded:
      return absl::StrCat("no response from the agent at ", at, ": ", message);
    default:
      return absl::StrCat("the agent at ", at, " rejected the call: ", message);
  }
}

ExitCode Session::CallFailed(const absl::Status& status, std::string_view sent) const {
  if (!bundle.empty()) {
    Error(absl::StrCat("bundle ", bundle, ": ", std::string(status.message())));
    return ExitCode::kIncomplete;
  }
  std::string text = CallProblem(status, address);
  const std::string what(sent);
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (!sent.empty()) absl::StrAppend(&text, "; ", what, " not sent");
      Error(text);
      return ExitCode::kUnreachable;
    case absl::StatusCode::kDeadlineExceeded:
      if (!sent.empty()) {
        absl::StrAppend(&text, "; the agent may have processed the ", what,
                        "; sending the request again is safe");
      }
      Error(text);
      return ExitCode::kUnreachable;
    default:
      if (!sent.empty()) absl::StrAppend(&text, "; ", what, " not processed");
      Error(text);
      return ExitCode::kCallRejected;
  }
}

}  // namespace svcmap::api
