// A fake agent without a kernel. The agent implements the protocol with scripted Acks. The agent's
// objects survive a restart of the server, as if they were saved on disk.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "svcmap/v1/control.grpc.pb.h"
#include "tests/support/wait.h"

namespace svcmap::source::test {

class FakeAgent final : private v1::Control::Service {
 public:
  explicit FakeAgent(const std::string& socket, uint64_t max_batch_bytes = 1 << 24)
      : address_("unix:" + socket), max_batch_bytes_(max_batch_bytes) {
    Start();
  }
  ~FakeAgent() override { Stop(); }

  const std::string& target() const { return address_; }

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(static_cast<int>(max_batch_bytes_));
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    BreakStream();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  // Cancels the current stream.
  void BreakStream() {
    const std::lock_guard lock(mutex_);
    held_acks_.clear();
    receives_nothing_ = false;
    changed_.notify_all();
    if (context_ != nullptr) context_->TryCancel();
  }
  // Ends the stream with `status` instead of processing the next message. If the agent is not
  // reading, the stream ends immediately.
  void EndWithNext(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    end_ = status;
    changed_.notify_all();
  }
  // After the next Open, the agent does not read from the stream until the test calls BreakStream.
  void ReadNothing() {
    const std::lock_guard lock(mutex_);
    receives_nothing_ = true;
  }

  void HoldAcks() {
    const std::lock_guard lock(mutex_);
    hold_acks_ = true;
  }
  void ReleaseAcks() {
    const std::lock_guard lock(mutex_);
    hold_acks_ = false;
    for (const v1::PushResponse& ack : held_acks_) stream_->Write(ack);
    held_acks_.clear();
  }

  void SetOutcome(v1::Outcome outcome) {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
  }

  // Makes the agent hold the removals of snapshots. If `loss` is empty, it accepts them again.
  void HoldRemovals(const std::string& loss) {
    const std::lock_guard lock(mutex_);
    loss_ = loss;
  }

  // Makes the agent reject objects with the given name. If `message` is empty, the agent accepts
  // the objects again.
  void Reject(const std::string& name, const std::string& message) {
    const std::lock_guard lock(mutex_);
    rejected_[name] = message;
  }

  // Stores an object as if an earlier stream had sent it.
  void Hold(const std::string& name, const std::string& ip) {
    const std::lock_guard lock(mutex_);
    held_[name] = ip;
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    held_.clear();
  }

  // The state that Await passes to the condition. Await holds the lock while the condition runs.
  struct Seen {
    std::vector<v1::Open> opens;
    std::vector<size_t> batches;  // Size of each received batch in bytes.
    int snapshots_begun = 0, snapshots_ended = 0, resumed = 0;
    size_t vanished = 0;         // Number of objects removed by changes and prunes.
    std::set<std::string> held;  // Stored objects as "name=clusterIP".
  };
  // Waits until `condition` returns true. Returns false if `condition` still returns false at the
  // deadline.
  bool Await(const std::function<bool(const Seen&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, svcmap::testing::kHangLimit, [&] { return condition(Now()); });
  }
  bool AwaitStored(const std::set<std::string>& held) {
    return Await([&](const Seen& seen) { return seen.held == held; });
  }
  Seen seen() {
    const std::lock_guard lock(mutex_);
    return Now();
  }

 private:
  using Stream = grpc::ServerReaderWriter<v1::PushResponse, v1::PushRequest>;

  grpc::Status Push(grpc::ServerContext* context, Stream* stream) override {
    v1::PushRequest request;
    if (!stream->Read(&request) || !request.has_open()) return grpc::Status::CANCELLED;
    {
      const std::lock_guard lock(mutex_);
      context_ = context;
      stream_ = stream;
      seen_.opens.push_back(request.open());
      knows_all_ = !request.open().state_token().empty() && request.open().state_token() == Token();
      if (knows_all_) ++seen_.resumed;
      in_snapshot_ = false;
      v1::PushResponse response;
      v1::Opened& opened = *response.mutable_opened();
      opened.set_resume(knows_all_ ? v1::CONTINUE : v1::SEND_SNAPSHOT);
      opened.mutable_limits()->set_max_batch_bytes(max_batch_bytes_);
      opened.mutable_limits()->set_max_batches_in_flight(64);
      opened.mutable_limits()->set_max_bytes_in_flight(1 << 26);
      stream->Write(response);
      changed_.notify_all();
    }
    while (MayRead() && stream->Read(&request) && Take(request, stream)) continue;
    const std::lock_guard lock(mutex_);
    if (stream_ == stream) {
      context_ = nullptr;
      stream_ = nullptr;
    }
    return std::exchange(end_, grpc::Status::OK);
  }

  bool MayRead() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !receives_nothing_ || !end_.ok(); });
    return !receives_nothing_;
  }

  bool Take(const v1::PushRequest& request, const Stream* stream) {
    const std::lock_guard lock(mutex_);
    // The client may connect again before the end of its previous stream is noticed.
    if (!end_.ok() || stream != stream_) return false;
    v1::PushResponse response;
    v1::Ack& ack = *response.mutable_ack();
    ack.set_outcome(outcome_);
    if (request.has_snapshot_begin()) {
      ++seen_.snapshots_begun;
      in_snapshot_ = true;
      named_.clear();
    } else if (request.has_batch()) {
      seen_.batches.push_back(request.ByteSizeLong());
      for (const v1::Change& change : request.batch().changes()) Take(change, ack);
      ack.set_number(request.batch().number());
    } else {
      ++seen_.snapshots_ended;
      ack.set_number(request.snapshot_end().number());
      if (loss_.empty()) {
        seen_.vanished +=
            std::erase_if(held_, [this](const auto& item) { return !named_.contains(item.first); });
        in_snapshot_ = false;
        knows_all_ = true;
      } else {
        ack.set_outcome(v1::HELD);
        ack.set_held(loss_);
      }
    }
    if (knows_all_ && !in_snapshot_) ack.set_state_token(Token());
    if (ack.number() != 0 && hold_acks_) held_acks_.push_back(response);
    if (ack.number() != 0 && !hold_acks_) stream_->Write(response);
    changed_.notify_all();
    return true;
  }

  void Take(const v1::Change& change, v1::Ack& ack) {
    if (change.has_remove()) {
      seen_.vanished += held_.erase(change.remove().name());
      named_.erase(change.remove().name());
      return;
    }
    if (change.has_endpoint_delta()) {  // The delta has no endpoints.
      named_.insert(change.endpoint_delta().name());
      return;
    }
    const std::string& name = change.has_endpoint_slice()
                                  ? change.endpoint_slice().metadata().name()
                                  : change.service().metadata().name();
    named_.insert(name);
    const std::string& rejected = rejected_[name];
    if (rejected.empty()) {
      held_[name] = change.service().spec().cluster_ip();
      return;
    }
    v1::ObjectResult& result = *ack.add_results();
    result.set_kind(v1::KIND_SERVICE);
    result.set_namespace_(change.service().metadata().namespace_());
    result.set_name(name);
    result.set_severity(v1::REFUSED);
    result.set_message(rejected);
  }

  Seen Now() const {
    Seen seen = seen_;
    for (const auto& [name, ip] : held_) seen.held.insert(name + "=" + ip);
    return seen;
  }

  std::string Token() const {
    std::string token = "token";
    for (const auto& [name, ip] : held_) token += " " + name + "=" + ip;
    return token;
  }

  const std::string address_;
  const uint64_t max_batch_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> held_;  // Cluster IPs of the stored objects by name.
  std::map<std::string, std::string> rejected_;
  std::string loss_;  // The held removals, if any.
  std::set<std::string> named_;
  bool in_snapshot_ = false;
  bool knows_all_ = false;
  bool hold_acks_ = false;
  v1::Outcome outcome_ = v1::COMMITTED;  // Of all Acks.
  bool receives_nothing_ = false;
  std::vector<v1::PushResponse> held_acks_;
  grpc::Status end_;
  grpc::ServerContext* context_ = nullptr;
  Stream* stream_ = nullptr;
  Seen seen_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace svcmap::source::test
