// The one way in: whatever a controller, svcmapctl or a manifest says goes through here, is
// checked, and becomes a batch of the reconcile loop. Refused objects are reported and logged; the
// others go on. Any thread.
#pragma once

#include <spdlog/spdlog.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/convert/convert.h"
#include "api/intake/findings_book.h"
#include "api/log/line_limit.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {

class Intake {
 public:
  // `done` gets the loop's result with the refusals in front; on the loop's thread, must not block.
  using Done = std::function<void(proxy::BatchResult)>;

  // `found` is told what there is to say about objects as they come in, not what the loop finds
  // when it programs them; any thread, must not block.
  Intake(proxy::Loop& loop, ConvertContext context,
         std::function<void(const std::vector<proxy::Finding>&)> found = nullptr)
      : loop_(loop), context_(std::move(context)), found_(std::move(found)) {}

  // INVALID_ARGUMENT, with nothing taken, for a change that says nothing this agent knows; `done`
  // is not called then. `size` and `convert(i)` stand for a repeated field.
  //
  // The batch is handed over under the lock of `gate`, if there is one: kAborted, with nothing
  // taken, if it comes unlocked. Without one it comes from aside (see proxy::Batch).
  //
  // `client` is the client that sent the batch. log_limit() limits the log lines about its objects.
  // An empty `client` has no limit.
  using Gate = std::function<std::unique_lock<std::mutex>()>;
  absl::Status Submit(proxy::Batch::Mark mark, int size,
                      const std::function<absl::StatusOr<ConvertedChange>(int)>& convert, Done done,
                      const Gate& gate = nullptr, const std::string& client = "");

  // What such a batch would change, with all that there would be to say about it; nothing of it is
  // taken, kept or logged. Waits; kUnavailable once the loop has stopped.
  absl::StatusOr<proxy::DryRun> Try(
      int size, const std::function<absl::StatusOr<ConvertedChange>(int)>& convert);

  // See proxy::Loop.
  void StartSession(std::optional<proxy::StateToken> offered,
                    std::function<void(std::optional<proxy::StateToken>)> answer) {
    loop_.StartSession(offered, std::move(answer));
  }

  const ConvertContext& context() const { return context_; }
  const FindingsBook& findings() const { return book_; }
  // For all log lines that a client with write permission can cause.
  LineLimit& log_limit() { return log_limit_; }

 private:
  void Log(const std::string& client, const std::vector<proxy::Finding>& findings);
  void Notify(const std::string& client, const std::vector<proxy::Finding>& findings);

  proxy::Loop& loop_;
  ConvertContext context_;
  const std::function<void(const std::vector<proxy::Finding>&)> found_;
  FindingsBook book_;
  LineLimit log_limit_{[](const std::string& line) { spdlog::warn("{}", line); }};
};

}  // namespace svcmap::api
