// Implements `svcmapctl wait`.
#include <algorithm>
#include <ostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "api/cli/commands.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPollInterval{100};

bool Reached(const WaitOptions& options, const v1::GetStatusResponse& status) {
  switch (options.what) {
    case WaitOptions::For::kServing:
      return status.state() == v1::SERVING;
    case WaitOptions::For::kController:
      return status.has_controller();
    case WaitOptions::For::kRevision:
      return status.revision() >= options.revision;
  }
  return false;
}

// Returns true if the error may be temporary because the agent is starting or busy. All other
// errors are permanent.
bool WorthRetrying(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

ExitCode RunWait(const Options& all, Session& session) {
  const WaitOptions& options = all.wait;
  const auto deadline = steady_clock::now() + options.timeout;
  std::string last;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    if (left <= milliseconds(0)) break;
    const absl::StatusOr<v1::GetStatusResponse> status = session.client.GetStatus(left);
    if (status.ok() && Reached(options, *status)) {
      session.out << StatusLine(*status) << '\n';
      return ExitCode::kOk;
    }
    if (!status.ok() && !WorthRetrying(status.status())) return session.CallFailed(status.status());
    last = status.ok() ? "the agent's state is: " + StatusLine(*status)
                       : CallProblem(status.status(), session.address);
    const auto until = std::min(steady_clock::now() + kPollInterval, deadline);
    std::this_thread::sleep_until(until);
  }
  session.Error(absl::StrCat("wait --for ", options.what_as_given, ": timed out after ",
                             DurationText(options.timeout), "; ", last));
  return ExitCode::kWaitTimeout;
}

}  // namespace svcmap::api
