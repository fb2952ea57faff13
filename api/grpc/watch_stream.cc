#include "api/grpc/watch_stream.h"

#include <memory>
#include <mutex>
#include <utility>

#include "api/grpc/status.h"
#include "api/grpc/status_report.h"

namespace svcmap::api {
namespace {

class WatchStream final : public grpc::ServerWriteReactor<v1::WatchEvent>,
                          public Watcher,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  WatchStream(WatchHub& hub, std::function<void(v1::GetStatusResponse&)> fill_status)
      : hub_(hub), fill_status_(std::move(fill_status)) {}

  void Start(const std::string& peer, uint32_t limit) {
    self_ = shared_from_this();
    const std::lock_guard lock(mutex_);
    const absl::StatusOr<uint64_t> joined = hub_.Join(self_, peer, limit);
    if (joined.ok()) {
      number_ = *joined;
    } else {
      const bool stopping = absl::IsUnavailable(joined.status());
      Close(stopping ? Error(grpc::UNAVAILABLE, v1::STOPPING, kWatchEnd)
                     : Error(grpc::RESOURCE_EXHAUSTED, v1::LIMIT_REACHED,
                             std::string(joined.status().message()),
                             {{"flag", "--max-watchers"}, {"limit", std::to_string(limit)}}));
    }
  }

  void Wake() override {
    if (!std::exchange(sent_status_, true)) {
      SendStatus();
      return;
    }
    const std::lock_guard lock(mutex_);
    MaybeWrite();
  }

  void End() override {
    const std::lock_guard lock(mutex_);
    Close(Error(grpc::UNAVAILABLE, v1::STOPPING, kWatchEnd));
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) {
      MaybeWrite();
    } else {
      Close(grpc::Status::CANCELLED);
    }
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    Close(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    hub_.Leave(*this);
    self_.reset();  // The hub may still have a reference.
  }

 private:
  // Reads the status of the loop. Must be called without mutex_.
  void SendStatus() {
    v1::GetStatusResponse status;
    fill_status_(status);
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    event_.set_number(number_);
    SetTimestamp(*event_.mutable_time(), std::chrono::system_clock::now());
    *event_.mutable_status() = std::move(status);
    StartWrite(&event_);
  }

  void MaybeWrite() {
    if (finished_ || writing_) return;
    const std::shared_ptr<const v1::WatchEvent> next = hub_.Next(*this, number_);
    if (!next) return;
    event_ = *next;
    event_.set_lost(next->number() - number_ - 1);
    number_ = next->number();
    writing_ = true;
    StartWrite(&event_);
  }

  void Close(const grpc::Status& status) {
    if (!std::exchange(finished_, true)) Finish(status);
  }

  WatchHub& hub_;
  const std::function<void(v1::GetStatusResponse&)> fill_status_;
  bool sent_status_ = false;  // Used only on the hub's thread.

  std::mutex mutex_;  // Guards the members below. Locked before the hub's mutex.
  v1::WatchEvent event_;
  uint64_t number_ = 0;  // Number of the last sent event.
  bool writing_ = true;  // The first message is the status.
  bool finished_ = false;

  std::shared_ptr<WatchStream> self_;
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchEvent>* NewWatchStream(
    WatchHub& hub, const std::string& peer, uint32_t limit,
    std::function<void(v1::GetStatusResponse&)> fill_status) {
  const auto stream = std::make_shared<WatchStream>(hub, std::move(fill_status));
  stream->Start(peer, limit);
  return stream.get();
}

}  // namespace svcmap::api
