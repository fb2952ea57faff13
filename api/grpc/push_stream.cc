#include "api/grpc/push_stream.h"

#include <grpcpp/alarm.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <utility>

#include "api/convert/quote.h"
#include "api/grpc/status.h"
#include "api/log/log_value.h"
#include "google/protobuf/arena.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxNameBytes = 253;

// Returns "svcmap-kube (pod-7)" for logs and messages.
std::string DisplayName(const std::string& name, const std::string& instance) {
  return Escape(instance.empty() ? name : name + " (" + instance + ")");
}

std::string LogFields(const v1::Open& open) {
  std::string fields = "name=" + LogValue(Escape(open.name()));
  if (!open.instance().empty()) fields += " instance=" + LogValue(Escape(open.instance()));
  if (open.epoch() != 0) fields += " epoch=" + std::to_string(open.epoch());
  return fields;
}

grpc::Status OutOfOrder(const std::string& message) {
  return Error(grpc::INVALID_ARGUMENT, v1::OUT_OF_ORDER, message);
}

uint64_t NextStreamId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

// The first block is large enough for a batch with one change.
google::protobuf::ArenaOptions MakeArenaOptions() {
  google::protobuf::ArenaOptions options;
  options.start_block_size = size_t{4} << 10;
  options.max_block_size = size_t{64} << 10;
  return options;
}

class PushStream final : public PushReactor, public std::enable_shared_from_this<PushStream> {
 public:
  PushStream(Intake& intake, ActiveSession& holder, const PushLimits& limits,
             std::string connection, std::string client, v1::Opened opened)
      : intake_(intake),
        active_session_(holder),
        limits_(limits),
        connection_(std::move(connection)),
        client_(std::move(client)),
        opened_(std::move(opened)) {}

  void Start() {
    self_ = shared_from_this();
    open_deadline_.Set(std::chrono::system_clock::now() + limits_.open_within,
                       [weak = weak_from_this()](bool expired) {
                         const auto stream = expired ? weak.lock() : nullptr;
                         if (stream != nullptr) stream->OnOpenDeadline();
                       });
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {  // The controller sends no more messages. Received batches are still acknowledged.
      const std::lock_guard lock(mutex_);
      half_closed_ = true;
      MaybeFinish();
      return;
    }
    if (const grpc::Status status = Handle(); !status.ok()) {
      End(status);
      return;
    }
    const std::lock_guard lock(mutex_);
    reading_ = false;
    MaybeRead();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) {
      responses_.clear();
      half_closed_ = true;
    }
    MaybeWrite();
    MaybeRead();
    MaybeFinish();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    half_closed_ = true;
    responses_.clear();
    MaybeFinish();
  }

  void OnDone() override {
    const bool was_active = active_session_.Leave(id_, connection_);
    if (was_active && MayLog()) spdlog::info("controller disconnected {}", log_fields_);
    self_.reset();  // Unacknowledged batches keep the stream alive.
  }

 private:
  void OnOpenDeadline() {
    {
      const std::lock_guard lock(mutex_);
      if (open_received_ || std::exchange(finished_, true)) return;
    }
    FinishWithError(
        Error(grpc::DEADLINE_EXCEEDED, v1::OPEN_TIMEOUT,
              "open not received within " + std::to_string(limits_.open_within.count()) + " ms"));
  }

  // Ends the stream with an error. Further calls have no effect. Thread-safe.
  void End(const grpc::Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(finished_, true)) return;
    }
    FinishWithError(status);
  }

  void FinishWithError(const grpc::Status& status) {
    if (MayLog()) {
      spdlog::warn("push stream closed {} error={}",
                   log_fields_.empty() ? "name=unknown" : log_fields_,
                   LogValue(status.error_message()));
    }
    Finish(status);
  }

  bool MayLog() { return intake_.log_limit().Admit(client_); }

  grpc::Status Handle() {
    google::protobuf::Arena arena(MakeArenaOptions());  // A batch has thousands of small parts.
    auto& request = *google::protobuf::Arena::CreateMessage<envelope::v1::PushRequest>(&arena);
    const size_t bytes = request_.Length();
    const grpc::Status parsed =
        grpc::SerializationTraits<envelope::v1::PushRequest>::Deserialize(&request_, &request);
    if (!parsed.ok()) {
      return Error(grpc::INVALID_ARGUMENT, v1::UNKNOWN_MESSAGE,
                   "message cannot be decoded as svcmap.v1.PushRequest");
    }
    using envelope::v1::PushRequest;
    switch (request.message_case()) {
      case PushRequest::kOpen:
        return HandleOpen(request.open());
      case PushRequest::kSnapshotBegin:
      case PushRequest::kBatch:
      case PushRequest::kSnapshotEnd:
        if (name_.empty()) {
          return OutOfOrder("the first message of a Push stream must contain the field open");
        }
        return HandleState(request, bytes);
      case PushRequest::MESSAGE_NOT_SET:
        break;
    }
    return Error(grpc::INVALID_ARGUMENT, v1::UNKNOWN_MESSAGE,
                 "message has no field that this agent supports");
  }

  grpc::Status HandleOpen(const v1::Open& open) {
    if (!name_.empty()) {
      return OutOfOrder("open sent twice on the stream of " + name_);
    }
    {
      const std::lock_guard lock(mutex_);
      if (finished_) return grpc::Status::OK;  // The deadline has passed.
      open_received_ = true;
    }
    open_deadline_.Cancel();
    if (open.name().empty()) return InvalidField("open.name", "Required value");
    if (grpc::Status unsupported = CheckVersion("open.protocol_version", open.protocol_version());
        !unsupported.ok()) {
      return unsupported;
    }
    for (const auto& [field, text] :
         {std::pair("open.name", &open.name()), std::pair("open.instance", &open.instance())}) {
      if (text->size() > kMaxNameBytes) {
        return InvalidField(
            field, "Too long: must have at most " + std::to_string(kMaxNameBytes) + " bytes");
      }
    }
    name_ = DisplayName(open.name(), open.instance());
    log_fields_ = LogFields(open);
    const std::weak_ptr<PushStream> weak = weak_from_this();
    const grpc::Status taken = active_session_.Take(id_,
                                                    {.name = open.name(),
                                                     .instance = open.instance(),
                                                     .epoch = open.epoch(),
                                                     .since = std::chrono::system_clock::now()},
                                                    [weak](const grpc::Status& replaced) {
                                                      if (const auto stream = weak.lock())
                                                        stream->End(replaced);
                                                    });
    if (!taken.ok()) return taken;
    if (MayLog()) spdlog::info("controller connected {}", log_fields_);
    const std::optional<proxy::StateToken> offered = TokenFromBytes(open.state_token());
    // If another controller has replaced this stream meanwhile, a new session would abandon that
    // controller's snapshot.
    if (const auto active = active_session_.Enter(id_)) {
      intake_.StartSession(
          offered, [self = shared_from_this(), offered](std::optional<proxy::StateToken> held) {
            self->AnswerOpen(offered, held);
          });
    }
    return grpc::Status::OK;
  }

  // Called on the loop's thread.
  void AnswerOpen(const std::optional<proxy::StateToken>& offered,
                  const std::optional<proxy::StateToken>& held) {
    v1::PushResponse response;
    v1::Opened& opened = *response.mutable_opened();
    opened = opened_;
    if (held) opened.set_state_token(ToBytes(*held));
    const bool same = held && offered == held;
    opened.set_resume(same ? v1::CONTINUE : v1::SEND_SNAPSHOT);
    if (offered && MayLog()) {
      spdlog::info("{} {}",
                   same ? "controller resumed without a snapshot"
                        : "controller must send a snapshot because its state differs",
                   log_fields_);
    }
    const std::lock_guard lock(mutex_);
    response_bytes_ += response.ByteSizeLong();
    responses_.push_front(std::move(response));
    MaybeWrite();
  }

  // `bytes`: size of the request.
  grpc::Status HandleState(const envelope::v1::PushRequest& request, size_t bytes) {
    Intake::Mark mark;
    uint64_t number = 0;
    if (request.has_snapshot_begin()) {
      if (!active_session_.SetInSnapshot(id_, true)) {
        return OutOfOrder("snapshot_begin inside a snapshot");
      }
      return Submit({proxy::Batch::Mark::kSnapshotBegin}, request.batch(), nullptr);
    }
    if (request.has_snapshot_end()) {
      if (!active_session_.SetInSnapshot(id_, false)) {
        return OutOfOrder("snapshot_end outside a snapshot");
      }
      mark = {proxy::Batch::Mark::kSnapshotEnd, request.snapshot_end().accept_removals()};
      number = request.snapshot_end().number();
    } else {
      number = request.batch().number();
    }
    if (number <= last_number_) {
      return OutOfOrder("batch number " + std::to_string(number) + " does not follow " +
                        std::to_string(last_number_));
    }
    last_number_ = number;
    {
      const std::lock_guard lock(mutex_);
      ++unanswered_;
      unanswered_bytes_ += bytes;
    }
    return Submit(mark, request.batch(),
                  [self = shared_from_this(), number, bytes](proxy::BatchResult result) {
                    self->Answer(ToAck(number, result), bytes);
                  });
  }

  // `batch` is empty if the request contains no batch.
  grpc::Status Submit(Intake::Mark mark, const envelope::v1::Batch& batch, Intake::Done done) {
    if (const grpc::Status too_many = CheckBatchSize(batch.changes_size()); !too_many.ok()) {
      return too_many;
    }
    const absl::Status submitted = intake_.Submit(
        mark, batch.changes_size(),
        [&](int i) { return ConvertChange(batch.changes(i), intake_.context()); }, std::move(done),
        {client_, "client=" + LogValue(client_) + " " + log_fields_},
        [this] { return active_session_.Enter(id_); });
    // kAborted: another controller has replaced this stream and ends it with a reason.
    if (submitted.ok() || absl::IsAborted(submitted)) return grpc::Status::OK;
    return NotTaken(submitted);
  }

  // Called on the loop's thread. `bytes` is the size of the batch.
  void Answer(v1::Ack ack, size_t bytes) {
    const std::lock_guard lock(mutex_);
    --unanswered_;
    unanswered_bytes_ -= bytes;
    v1::PushResponse& response = responses_.emplace_back();
    *response.mutable_ack() = std::move(ack);
    response_bytes_ += response.ByteSizeLong();
    MaybeWrite();
    MaybeRead();
    MaybeFinish();
  }

  // The limits include unprocessed batches and responses that the controller has not read.
  void MaybeRead() {
    if (reading_ || finished_ || half_closed_) return;
    if (unanswered_ + responses_.size() >= limits_.max_batches_in_flight) return;
    if (unanswered_bytes_ + response_bytes_ >= limits_.max_bytes_in_flight) return;
    reading_ = true;
    StartRead(&request_);
  }

  void MaybeWrite() {
    if (writing_ || finished_ || responses_.empty()) return;
    writing_ = true;
    response_.Clear();
    bool own_buffer = false;
    grpc::SerializationTraits<v1::PushResponse>::Serialize(responses_.front(), &response_,
                                                           &own_buffer);
    response_bytes_ -= response_.Length();
    responses_.pop_front();
    StartWrite(&response_);
  }

  void MaybeFinish() {
    if (finished_ || !half_closed_ || writing_ || unanswered_ > 0 || !responses_.empty()) return;
    finished_ = true;
    Finish(grpc::Status::OK);
  }

  Intake& intake_;
  ActiveSession& active_session_;
  const PushLimits limits_;
  const std::string connection_;  // Peer name in gRPC.
  const std::string client_;      // Client for the limit on log lines.
  const v1::Opened opened_;
  const uint64_t id_ = NextStreamId();

  // Used only in OnReadDone. gRPC does not call OnReadDone concurrently.
  grpc::ByteBuffer request_;
  std::string name_;
  std::string log_fields_;
  uint64_t last_number_ = 0;

  std::mutex mutex_;  // Guards the members below.
  grpc::ByteBuffer response_;
  std::deque<v1::PushResponse> responses_;
  size_t unanswered_ = 0;
  uint64_t unanswered_bytes_ = 0;
  // Serialized size of responses_. An Ack contains about 260 bytes for a rejected object.
  uint64_t response_bytes_ = 0;
  bool writing_ = false;
  bool reading_ = true;  // Start() starts the first read.
  bool half_closed_ = false;
  bool open_received_ = false;
  bool finished_ = false;

  std::shared_ptr<PushStream> self_;
  grpc::Alarm open_deadline_;  // Ends the stream if Open is not received in time.
};

}  // namespace

bool ActiveSession::Admit(const std::string& connection, uint32_t limit) {
  const std::lock_guard lock(mutex_);
  uint32_t& streams = streams_[connection];
  if (streams >= limit) return false;
  ++streams;
  return true;
}

grpc::Status ActiveSession::CheckEpoch(const Controller& controller) const {
  const bool same = controller.name == leader_.name && controller.instance == leader_.instance;
  if (controller.epoch > leader_.epoch || leader_.epoch == 0) return grpc::Status::OK;
  if (controller.epoch == leader_.epoch && same) return grpc::Status::OK;
  const std::string leader = DisplayName(leader_.name, leader_.instance);
  const std::string epoch = std::to_string(controller.epoch);
  const std::string leader_epoch = std::to_string(leader_.epoch);
  return Error(grpc::FAILED_PRECONDITION, v1::EPOCH_REJECTED,
               "open.epoch " + epoch +
                   (controller.epoch == leader_.epoch
                        ? " belongs to leader " + leader
                        : " is lower than " + leader_epoch + ", the epoch of leader " + leader) +
                   "; stream rejected; use a higher epoch, or stop svcmapd and delete the file "
                   "objects.db in its --state-dir",
               {{"epoch", epoch},
                {"leader_epoch", leader_epoch},
                {"leader_name", leader_.name},
                {"leader_instance", leader_.instance}});
}

void ActiveSession::Notify(v1::WatchController::What what, const Controller& controller,
                           const std::string& reason) const {
  if (!notify_) return;
  v1::WatchController event;
  event.set_what(what);
  event.set_name(controller.name);
  event.set_instance(controller.instance);
  event.set_epoch(controller.epoch);
  event.set_reason(reason);
  notify_(event);
}

grpc::Status ActiveSession::Take(uint64_t id, Controller controller, OnReplaced end) {
  const std::string by = DisplayName(controller.name, controller.instance);
  const grpc::Status replaced =
      Error(grpc::ABORTED, v1::REPLACED, "replaced by " + by,
            {{"name", controller.name}, {"instance", controller.instance}});
  OnReplaced end_previous;
  // Saving waits for the disk. take_mutex_ ensures that GetStatus and the active controller do not
  // wait for the disk.
  const std::lock_guard taking(take_mutex_);
  if (grpc::Status status = CheckEpoch(controller); !status.ok()) {
    const std::lock_guard lock(mutex_);
    Notify(v1::WatchController::FENCED, controller, status.error_message());
    return status;
  }
  if (controller.epoch > leader_.epoch) {
    leader_ = {controller.epoch, controller.name, controller.instance};
    if (save_) save_(leader_);
  }
  {
    const std::lock_guard lock(mutex_);
    end_previous = std::exchange(end_, std::move(end));
    id_ = id;
    if (controller_) Notify(v1::WatchController::REPLACED, *controller_, by);
    controller_ = std::move(controller);
    Notify(v1::WatchController::CAME, *controller_);
  }
  if (end_previous) end_previous(replaced);
  return grpc::Status::OK;
}

std::unique_lock<std::mutex> ActiveSession::Enter(uint64_t id) {
  std::unique_lock lock(mutex_);
  if (id_ != id || !controller_) lock.unlock();
  return lock;
}

bool ActiveSession::Leave(uint64_t id, const std::string& connection) {
  const std::lock_guard lock(mutex_);
  if (const auto streams = streams_.find(connection); --streams->second == 0) {
    streams_.erase(streams);
  }
  if (id_ != id) return false;
  if (controller_) Notify(v1::WatchController::LEFT, *controller_);
  controller_.reset();
  end_ = nullptr;
  return true;
}

bool ActiveSession::SetInSnapshot(uint64_t id, bool in_snapshot) {
  const std::lock_guard lock(mutex_);
  if (id_ != id || !controller_) return true;
  return std::exchange(controller_->in_snapshot, in_snapshot) != in_snapshot;
}

std::optional<ActiveSession::Controller> ActiveSession::current() const {
  const std::lock_guard lock(mutex_);
  return controller_;
}

PushReactor* NewPushStream(Intake& intake, ActiveSession& holder, const PushLimits& limits,
                           std::string connection, std::string client, v1::Opened opened) {
  const auto stream = std::make_shared<PushStream>(intake, holder, limits, std::move(connection),
                                                   std::move(client), std::move(opened));
  stream->Start();
  return stream.get();
}

}  // namespace svcmap::api
