#include "api/source/push.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "api/connect/channel.h"
#include "api/convert/error_info.h"
#include "api/convert/projection.h"
#include "api/log/log_value.h"
#include "api/source/push_stream.h"
#include "nft/base/backoff.h"

namespace svcmap::source {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Maximum size of the changes in one batch, about 1,000 objects.
constexpr size_t kBatchBytes = 1 << 20;

// Maximum number of batches without an Ack. While svcmapd commits one batch, the next batches wait
// in svcmapd and are committed together. A larger window would not increase the throughput, and
// fewer changes would coalesce in the mirror.
constexpr size_t kWindow = 8;

constexpr milliseconds kLook{200};  // Interval for checking whether the mirror is complete.

// Returns whether an error probably persists until an operator acts. ABORTED means that another
// controller is connected. The delay prevents two controllers from replacing each other in a loop.
bool IsLasting(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::UNIMPLEMENTED:
      return true;
    default:
      return false;
  }
}

std::string Hint(grpc::StatusCode code, const std::string& name) {
  switch (code) {
    case grpc::StatusCode::ABORTED:
      return "; two controllers use this agent, but only one is allowed";
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return "; check --allow-write and --allow-write-uid of svcmapd";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "; check --max-batch-bytes and --max-streams of svcmapd";
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::UNIMPLEMENTED:
      return "; the versions of svcmapd and " + name + " are incompatible";
    default:
      return "";
  }
}

// Returns the changes to send instead of `change`, which is too large. For an EndpointSlice, this
// is an empty EndpointDelta, which keeps the stored EndpointSlice, if any, even at the end of a
// snapshot. For other objects, returns no changes.
std::vector<std::string> InsteadOf(const std::string& change) {
  v1::Change parsed;
  if (!parsed.ParseFromString(change) || !parsed.has_endpoint_slice()) return {};
  v1::Change instead;
  instead.mutable_endpoint_delta()->set_namespace_(parsed.endpoint_slice().metadata().namespace_());
  instead.mutable_endpoint_delta()->set_name(parsed.endpoint_slice().metadata().name());
  return {instead.SerializeAsString()};
}

// Returns a serialized v1::PushRequest with a batch of `changes`. Each change is a serialized
// v1::Change.
std::string BatchMessage(uint64_t number, const std::vector<std::string>& changes) {
  constexpr uint32_t kChange = v1::Batch::kChangesFieldNumber << 3 | 2;
  constexpr uint32_t kBatch = v1::PushRequest::kBatchFieldNumber << 3 | 2;
  v1::Batch head;
  head.set_number(number);
  std::string batch = head.SerializeAsString();
  for (const std::string& change : changes) api::AppendField(kChange, change, batch);
  std::string message;
  api::AppendField(kBatch, batch, message);
  return message;
}

}  // namespace

class Push::Worker {
 public:
  Worker(PushOptions options, Mirror& mirror)
      : options_(std::move(options)), mirror_(mirror), thread_([this] { Run(); }) {}

  ~Worker() {
    mirror_.End();
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    {
      const std::lock_guard lock(stream_mutex_);
      if (stream_ != nullptr) stream_->Cancel();
    }
    thread_.join();
  }

  PushFacts facts() {
    const std::lock_guard lock(mutex_);
    // Changes without effect on the objects move the position without a batch.
    if (facts_.synced && programmed_ && !in_snapshot_ && !taking_ && in_flight_.empty()) {
      facts_.position = mirror_.SentPosition().value_or(facts_.position);
    }
    PushFacts facts = facts_;
    facts.in_flight = in_flight_.size();
    facts.rejected = findings_.rejected();
    return facts;
  }

 private:
  struct Sent {
    uint64_t number = 0;
    std::vector<std::string> changes;  // Empty: a SnapshotEnd.
    size_t bytes = 0;                  // Size of the message.
    std::optional<uint64_t> position;  // Position of the state with these changes, if known.
    size_t too_large = 0;  // Size of the only change's message if it was too large, otherwise 0.
  };

  // The reason for the end of a stream, as text for the log.
  struct End {
    std::string text;
    bool lasting = false;
  };

  void Run() {
    Backoff backoff(options_.first_retry, options_.last_retry);
    while (AwaitMirror()) {
      const End end = OneStream();
      std::unique_lock lock(mutex_);
      if (ending_) return;
      if (acked_) backoff.Success();
      milliseconds wait = backoff.Failure();
      if (end.lasting) wait = options_.slow_retry / 2 + backoff.RandomPart(options_.slow_retry / 2);
      ++facts_.failures;
      if (facts_.last_error != end.text) {
        spdlog::warn("stream to svcmapd failed, retrying, rules stay in effect error={}",
                     api::LogValue(end.text));
        facts_.last_error = end.text;
      } else {
        spdlog::debug("stream to svcmapd failed, retrying in {}ms error={}", wait.count(),
                      api::LogValue(end.text));
      }
      changed_.wait_for(lock, wait, [this] { return ending_; });
    }
  }

  // Waits until the mirror is complete. Returns false if the worker must stop.
  bool AwaitMirror() {
    while (!mirror_.complete()) {
      // Wait does not return when an empty mirror becomes complete, because there are no changes.
      if (mirror_.Wait(Clock::now() + kLook) == Mirror::Wake::kEnded) return false;
    }
    return !IsEnding();
  }

  End OneStream() {
    const absl::StatusOr<api::TlsMaterial> tls = api::ReadTlsFiles(options_.tls);
    const absl::Status sound = tls.ok() ? api::CheckTlsMaterial(*tls, options_.tls) : tls.status();
    if (!sound.ok()) return {std::string(sound.message()), false};

    std::string token;
    {
      const std::lock_guard lock(mutex_);
      broken_ = acked_ = in_snapshot_ = false;
      send_again_.reset();
      problem_.clear();
      opened_.reset();
      last_number_ = snapshot_end_ = 0;
      // After a rejection, start with a snapshot, because svcmapd may accept the object now.
      if (in_flight_.empty() && !findings_.any_rejected()) token = token_;
      progress_ = Clock::now();
    }
    PushStream stream(Connect(*tls), {.on_answer = [this](const auto& answer) { Take(answer); },
                                      .on_broken =
                                          [this] {
                                            const std::lock_guard lock(mutex_);
                                            broken_ = true;
                                            changed_.notify_all();
                                            mirror_.Interrupt();
                                          }});
    SetStream(&stream);
    RunStream(stream, token);
    // Cancel only if the worker gave up the stream. Otherwise the stream has ended by itself or was
    // cancelled by the destructor, and its status contains the reason.
    if (!problem_.empty()) stream.Cancel();
    const grpc::Status status = stream.Finish();
    SetStream(nullptr);
    std::string advice;  // May connect to svcmapd again, so it is computed without mutex_.
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !opened_) {
      advice = api::ConnectAdvice(status.error_message(), options_.target, *tls);
    }
    const std::lock_guard lock(mutex_);
    facts_.connected = facts_.synced = false;
    return EndOf(status, advice);
  }

  // Lets the destructor cancel the stream. If the destructor has already begun, cancels the stream
  // itself.
  void SetStream(PushStream* stream) {
    const std::lock_guard lock(stream_mutex_);
    stream_ = stream;
    if (stream != nullptr && IsEnding()) stream->Cancel();
  }

  bool IsEnding() const {
    const std::lock_guard lock(mutex_);
    return ending_;
  }

  // mutex_ must be held. `advice`: why the connection failed, or "" if it did not.
  End EndOf(const grpc::Status& status, const std::string& advice) {
    // A delayed Open from an earlier stream of this process may arrive after the Open of this
    // stream.
    api::ErrorInfo error = api::ReadErrorDetails(status.error_details());
    const bool by_ourselves = error.reason == v1::REPLACED &&
                              error.metadata["name"] == options_.name &&
                              error.metadata["instance"] == options_.instance;
    const bool again = std::exchange(replaced_by_ourselves_, by_ourselves);
    // If the stream has ended with an error at the same time, that error is more useful.
    const bool ended = !status.ok() && status.error_code() != grpc::StatusCode::CANCELLED;
    if (!problem_.empty() && !ended) return {problem_, false};
    if (!advice.empty()) return {"connect to svcmapd at " + options_.target + ": " + advice, false};
    if (status.ok()) return {"svcmapd closed the stream without an error", false};
    return {"svcmapd closed the stream: " + api::CodeName(status.error_code()) + ": " +
                status.error_message() + Hint(status.error_code(), options_.name),
            IsLasting(status.error_code()) && (!by_ourselves || again)};
  }

  std::shared_ptr<grpc::Channel> Connect(const api::TlsMaterial& tls) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // Connection timeout.
    if (!absl::StartsWith(options_.target, "unix:")) {
      // Detects a dead peer within 30 s.
      arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
      arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
      arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    }
    return api::NewChannel(options_.target, tls, arguments);
  }

  // Functions that use the stream. They return false if the stream is over.

  bool RunStream(PushStream& stream, const std::string& token) {
    v1::PushRequest request;
    v1::Open& open = *request.mutable_open();
    open.set_name(options_.name);
    open.set_instance(options_.instance);
    open.set_protocol_version(api::kProtocolVersion);
    open.set_state_token(token);
    if (!Write(stream, request.SerializeAsString(), options_.opened_timeout)) return false;
    {
      std::unique_lock lock(mutex_);
      const bool answered = changed_.wait_for(lock, options_.opened_timeout,
                                              [this] { return opened_ || broken_ || ending_; });
      if (!answered) return Fail("timeout: no response to Open from svcmapd");
      if (broken_ || ending_) return false;
      const bool resume = !token.empty() && opened_->resume() == v1::CONTINUE;
      facts_.connected = true;
      facts_.synced = resume;
      facts_.last_error.clear();
      facts_.revision = opened_->revision();
      spdlog::info("connected to svcmapd, {} version={} node={}",
                   resume ? "resuming" : "sending snapshot",
                   api::LogValue(opened_->agent_version()), api::LogValue(opened_->node_name()));
      if (resume) {
        ++facts_.resumed;
        lock.unlock();
        return Follow(stream);
      }
    }
    return SendSnapshot(stream) && Follow(stream);
  }

  bool SendSnapshot(PushStream& stream) {
    {
      // The mirror contains the changes in flight, so the snapshot includes them.
      const std::lock_guard lock(mutex_);
      in_flight_.clear();
      in_flight_bytes_ = 0;
      token_.clear();
      in_snapshot_ = true;
      send_again_.reset();
      findings_.BeginSnapshot();
      ++facts_.snapshots;
    }
    mirror_.StartSnapshot();
    v1::PushRequest request;
    request.mutable_snapshot_begin();
    if (!Write(stream, request.SerializeAsString(), options_.opened_timeout)) return false;
    while (!mirror_.SentPosition()) {
      if (mirror_.snapshot_wanted()) {  // A new stream discards this snapshot.
        const std::lock_guard lock(mutex_);
        return Fail("the objects were listed again during a snapshot");
      }
      if (!AwaitRoom(kWindow) || !SendBatch(stream)) return false;
    }
    if (!AwaitRoom(kWindow)) return false;
    {
      const std::lock_guard lock(mutex_);
      snapshot_end_ = ++last_number_;
      request.mutable_snapshot_end()->set_number(snapshot_end_);
    }
    return Send(stream,
                {.number = request.snapshot_end().number(), .position = mirror_.SentPosition()},
                request.SerializeAsString());
  }

  bool Follow(PushStream& stream) {
    for (;;) {
      Clock::time_point deadline;
      bool again = false;
      {
        const std::lock_guard lock(mutex_);
        if (broken_ || ending_) return false;
        const Clock::time_point now = Clock::now();
        deadline =
            in_flight_.empty() ? now + options_.ack_timeout : progress_ + options_.ack_timeout;
        if (deadline <= now) return Fail("timeout: no Ack from svcmapd");
        again = send_again_ && *send_again_ <= now;
        if (send_again_) deadline = std::min(deadline, *send_again_);
      }
      const Mirror::Wake wake = again ? Mirror::Wake::kSnapshot : mirror_.Wait(deadline);
      if (wake == Mirror::Wake::kSnapshot) {
        // Wait until everything is acknowledged, so that no Ack from before the snapshot sets
        // token_.
        if (!AwaitRoom(1) || !SendSnapshot(stream)) return false;
        continue;
      }
      if (wake != Mirror::Wake::kChanges) continue;
      if (!AwaitRoom(kWindow) || !SendBatch(stream)) return false;
    }
  }

  // Waits until fewer than `window` batches are unacknowledged and the limits of svcmapd permit
  // another batch. Changes coalesce in the mirror meanwhile. Returns false if the stream is broken,
  // the worker must stop, or no Ack arrives within ack_timeout.
  bool AwaitRoom(size_t window) {
    std::unique_lock lock(mutex_);
    const auto room = [this, window] {
      const v1::Limits& limits = opened_->limits();
      return in_flight_.empty() ||
             (in_flight_.size() < window && in_flight_.size() < limits.max_batches_in_flight() &&
              in_flight_bytes_ + kBatchBytes <= limits.max_bytes_in_flight());
    };
    while (!broken_ && !ending_ && !room()) {
      const Clock::time_point deadline = progress_ + options_.ack_timeout;
      if (deadline <= Clock::now()) return Fail("timeout: no Ack from svcmapd");
      changed_.wait_until(lock, deadline);
    }
    return !broken_ && !ending_;
  }

  bool SendBatch(PushStream& stream) {
    Sent sent;
    size_t max_bytes = 0;
    bool in_snapshot = false;
    {
      const std::lock_guard lock(mutex_);
      in_snapshot = in_snapshot_;
      sent.number = ++last_number_;
      max_bytes = opened_->limits().max_batch_bytes();
      taking_ = true;
    }
    // Half of the maximum size, because the encoding adds a few bytes to each change.
    sent.changes = mirror_.TakeChanges(std::min(kBatchBytes, max_bytes / 2), max_bytes / 2);
    // The state is complete when the end of the snapshot is acknowledged.
    if (!in_snapshot) sent.position = mirror_.SentPosition();
    if (sent.changes.empty()) {  // The changed objects were removed before they were sent.
      const std::lock_guard lock(mutex_);
      taking_ = false;
      return true;
    }
    std::string message = BatchMessage(sent.number, sent.changes);
    if (message.size() > max_bytes) {  // Only possible for a batch with a single change.
      sent.too_large = message.size();
      message = BatchMessage(sent.number, InsteadOf(sent.changes.front()));
    }
    return Send(stream, std::move(sent), message);
  }

  // Counts the message as in flight even if the write fails, so that the next stream sends a
  // snapshot.
  bool Send(PushStream& stream, Sent sent, const std::string& message) {
    {
      const std::lock_guard lock(mutex_);
      if (in_flight_.empty()) progress_ = Clock::now();
      sent.bytes = message.size();
      in_flight_bytes_ += sent.bytes;
      in_flight_.push_back(std::move(sent));
      taking_ = false;
      ++facts_.batches;
    }
    return Write(stream, message, options_.ack_timeout);
  }

  bool Write(PushStream& stream, const std::string& message, milliseconds timeout) {
    const PushStream::Written written = stream.Write(message, Clock::now() + timeout);
    if (written != PushStream::Written::kTimedOut) return written == PushStream::Written::kYes;
    const std::lock_guard lock(mutex_);
    return Fail("timeout: svcmapd does not read from the stream");
  }

  // Sets problem_ unless the stream is broken, because its status then contains the reason. Always
  // returns false. mutex_ must be held.
  bool Fail(std::string problem) {
    if (!broken_ && !ending_) problem_ = std::move(problem);
    return false;
  }

  void Take(const v1::PushResponse& answer) {
    std::unique_lock lock(mutex_);
    if (answer.has_opened()) opened_ = answer.opened();
    if (answer.has_ack()) TakeAck(answer.ack());
    changed_.notify_all();
    const bool first = facts_.synced && !reported_synced_;
    reported_synced_ = reported_synced_ || first;
    // If svcmapd holds removals, the objects of the snapshot are programmed nevertheless.
    const bool programmed =
        facts_.synced && (programmed_ || !facts_.held.empty()) && !reported_programmed_;
    reported_programmed_ = reported_programmed_ || programmed;
    lock.unlock();
    if (first && options_.on_synced) options_.on_synced();
    if (programmed && options_.on_programmed) options_.on_programmed();
  }

  // mutex_ must be held.
  void TakeAck(const v1::Ack& ack) {
    acked_ = true;
    token_ = ack.state_token();
    progress_ = Clock::now();
    facts_.revision = ack.revision();
    const bool failed = ack.outcome() == v1::FAILED;
    if (failed && failed_ != ack.error()) {
      spdlog::error("kernel commit failed, svcmapd is retrying error={}",
                    api::LogValue(ack.error()));
    }
    failed_ = failed ? ack.error() : "";
    const bool ends_snapshot = in_snapshot_ && ack.number() == snapshot_end_;
    if (ends_snapshot || !ack.held().empty() || !token_.empty()) facts_.held = ack.held();
    if (!ack.held().empty()) {
      spdlog::error(
          "svcmapd holds the removals of the snapshot, because they would remove too many "
          "objects; if they are intended, run \"svcmapctl accept-snapshot\" loss={}",
          api::LogValue(ack.held()));
    }
    while (!in_flight_.empty() && in_flight_.front().number <= ack.number()) {
      const Sent& sent = in_flight_.front();
      if (sent.too_large > 0) {  // `ack` has the results of InsteadOf().
        Report(findings_.LeaveOut(sent.changes.front(), sent.too_large,
                                  opened_->limits().max_batch_bytes()),
               spdlog::level::err);
      } else {
        Report(findings_.Take(ack, sent.changes), spdlog::level::warn);
      }
      in_flight_bytes_ -= sent.bytes;
      position_ = sent.position.value_or(position_);
      in_flight_.pop_front();
    }
    // svcmapd retries changes that it could not commit or holds, and sends no second Ack. The next
    // commit contains them.
    programmed_ = ack.outcome() == v1::COMMITTED || ack.outcome() == v1::UNCHANGED;
    if (programmed_) facts_.position = position_;
    spdlog::debug("batch acknowledged number={} outcome={} revision={}", ack.number(),
                  v1::Outcome_Name(ack.outcome()), ack.revision());
    if (ends_snapshot) {
      in_snapshot_ = false;
      findings_.EndSnapshot();
      if (!std::exchange(facts_.synced, true)) {
        spdlog::info("all objects synced to svcmapd revision={}", ack.revision());
      }
    }
    if (in_snapshot_ || (!findings_.any_rejected() && !failed && facts_.held.empty())) {
      send_again_.reset();
    } else if (!send_again_) {
      send_again_ = Clock::now() + options_.snapshot_retry;
      mirror_.Interrupt();  // Wakes Follow, which may wait for a later time.
    }
  }

  // mutex_ must be held.
  void Report(const std::vector<Finding>& findings, spdlog::level::level_enum level) const {
    for (const Finding& finding : findings) {
      spdlog::log(level, "{}", finding.text);
      if (options_.on_finding) options_.on_finding(finding);
    }
  }

  const PushOptions options_;
  Mirror& mirror_;
  // The timeout because of which the worker gave up the stream. Used only on the worker's thread.
  std::string problem_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool ending_ = false;
  bool broken_ = false;               // The stream is broken.
  std::optional<v1::Opened> opened_;  // Does not change after PushStream::Finish.
  uint64_t last_number_ = 0;
  bool in_snapshot_ = false;   // Until SnapshotEnd is acknowledged.
  uint64_t snapshot_end_ = 0;  // Number of the last SnapshotEnd.
  // When to send the next snapshot (PushOptions::snapshot_retry).
  std::optional<Clock::time_point> send_again_;
  bool taking_ = false;  // Changes were taken from the mirror, but are not in in_flight_ yet.
  // Messages without an Ack. Kept after the end of a stream.
  std::deque<Sent> in_flight_;
  size_t in_flight_bytes_ = 0;
  // Time of the last Ack, or of the first message that was sent after all messages were
  // acknowledged.
  Clock::time_point progress_;
  bool acked_ = false;  // An Ack has arrived on this stream.
  // State token in the last Ack. Identifies the state of the mirror if nothing is in flight.
  std::string token_;
  Findings findings_;
  std::string failed_;      // Last logged commit error. Empty after an Ack without an error.
  uint64_t position_ = 0;   // Of the last Ack, even if svcmapd has not programmed the changes.
  bool programmed_ = true;  // svcmapd has programmed the changes of the last Ack.
  bool reported_synced_ = false;
  bool reported_programmed_ = false;
  // A delayed Open of this process has replaced the last stream.
  bool replaced_by_ourselves_ = false;
  PushFacts facts_;

  std::mutex stream_mutex_;       // gRPC callbacks never lock it.
  PushStream* stream_ = nullptr;  // Null between streams. Guarded by stream_mutex_.

  std::thread thread_;  // Last, because the thread uses all members above.
};

Push::Push(PushOptions options, Mirror& mirror)
    : worker_(std::make_unique<Worker>(std::move(options), mirror)) {}
Push::~Push() = default;

PushFacts Push::facts() const { return worker_->facts(); }

}  // namespace svcmap::source
