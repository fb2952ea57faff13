// Receives all changes from controllers, svcmapctl and manifests.
#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/convert/convert.h"
#include "api/log/line_limit.h"
#include "proxy/reconcile/loop.h"
#include "proxy/state/objects.h"

namespace svcmap::api {

// Stores the findings (rejections and warnings) about received objects until the object is removed
// or sent again without findings. Used by svcmapctl status. The size is bounded. Thread-safe.
class FindingsBook {
 public:
  static constexpr size_t kMaxObjects = 1000;  // Findings of further objects are dropped.
  static constexpr size_t kMaxFindings = 100;  // Maximum number of findings per object for Add().

  // Replaces the findings of an object when the object is received.
  void Set(proxy::Kind kind, const std::string& key, const std::vector<proxy::Finding>& findings);
  // Call these functions at the start and end of a snapshot. EndSnapshot removes the findings of
  // objects that the snapshot did not contain.
  void BeginSnapshot();
  void EndSnapshot();

  // Adds findings that occur after the objects were converted, for example limits of the store.
  void Add(const std::vector<proxy::Finding>& findings);

  std::vector<proxy::Finding> All() const;

 private:
  using Key = std::pair<proxy::Kind, std::string>;
  mutable std::mutex mutex_;
  struct Reported {
    std::vector<proxy::Finding> findings;
    uint64_t snapshot = 0;  // Number of the snapshot in which the findings were reported.
  };
  bool HasRoomFor(const Key& key) const;

  std::map<Key, Reported> reported_;
  uint64_t snapshot_ = 0;
};

// Validates and converts changes and submits them to the reconcile loop as a batch. Rejected
// objects are reported and logged; the other objects of the batch are accepted. Thread-safe.
class Intake {
 public:
  // Receives the loop's result, with the findings of the conversion first. Called on the loop's
  // thread, or on the caller's thread if the loop has stopped. Must not block.
  using Done = std::function<void(proxy::BatchResult)>;

  // `found` receives findings of the conversion and of accepting the batch, but not findings of
  // programming. Called on any thread. Must not block.
  Intake(proxy::Loop& loop, ConvertContext context,
         std::function<void(const std::vector<proxy::Finding>&)> found = nullptr)
      : loop_(loop), context_(std::move(context)), found_(std::move(found)) {}

  // Submits `size` changes, which `convert(i)` returns. Returns INVALID_ARGUMENT and accepts
  // nothing if a change has no content that this agent knows. `done` is not called after an error.
  //
  // If there is a `gate`, the batch is submitted while holding the lock that `gate` returns. If
  // `gate` returns an unlocked lock, another controller has taken over, and Submit returns ABORTED
  // and accepts nothing. Without a `gate`, the batch is out of band (see proxy::Batch).
  //
  // log_limit() limits the log lines about the objects of `sender`.
  using Gate = std::function<std::unique_lock<std::mutex>()>;
  struct Mark {
    proxy::Batch::Mark mark = proxy::Batch::Mark::kNone;
    bool accept_removals = false;  // See proxy::Batch.
  };
  struct Sender {
    std::string client;  // Client for the limit on log lines, or empty for no limit.
    std::string fields;  // For the log: "client=... name=...", or "path=...".
  };
  absl::Status Submit(Mark mark, int size,
                      const std::function<absl::StatusOr<ConvertedChange>(int)>& convert, Done done,
                      const Sender& sender, const Gate& gate = nullptr);

  // Computes the effect of the changes with all findings. Nothing is stored or logged. Blocks until
  // the loop has the result. Returns UNAVAILABLE if the loop has stopped.
  absl::StatusOr<proxy::DryRun> Try(
      int size, const std::function<absl::StatusOr<ConvertedChange>(int)>& convert);

  // See proxy::Loop::StartSession.
  void StartSession(std::optional<proxy::StateToken> offered,
                    std::function<void(std::optional<proxy::StateToken>)> answer) {
    loop_.StartSession(offered, std::move(answer));
  }

  const ConvertContext& context() const { return context_; }
  // Findings of the last received version of each object, and of each Service that is not fully
  // programmed.
  std::vector<proxy::Finding> Findings() const;
  // Reasons why the source of the state cannot be read completely. They are not about an object.
  void SetSourceErrors(std::vector<std::string> errors);
  std::vector<std::string> SourceErrors() const;
  // Findings of the last received version of each object.
  std::vector<proxy::Finding> ReceivedFindings() const { return book_.All(); }
  // Limits all log lines that a client with write permission can cause. Its Report() must be called
  // every second.
  LineLimit& log_limit() { return log_limit_; }

 private:
  void Log(const std::string& client, const std::vector<proxy::Finding>& findings);
  void Notify(const std::string& client, const std::vector<proxy::Finding>& findings);
  void LogRemovals(const Sender& sender, const proxy::BatchResult& result);

  proxy::Loop& loop_;
  ConvertContext context_;
  const std::function<void(const std::vector<proxy::Finding>&)> found_;
  FindingsBook book_;
  mutable std::mutex source_mutex_;
  std::vector<std::string> source_errors_;
  LineLimit log_limit_{[](const std::string& line) { spdlog::warn("{}", line); }};
};

// Returns the number of objects with at least one rejection.
uint64_t CountRejected(const std::vector<proxy::Finding>& findings);

}  // namespace svcmap::api
