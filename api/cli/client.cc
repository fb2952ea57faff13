#include "api/cli/client.h"

#include <google/protobuf/util/time_util.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "api/cli/text.h"
#include "api/connect/channel.h"
#include "api/convert/error_info.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {
namespace {

using Clock = std::chrono::system_clock;  // gRPC deadlines use this clock.
using std::chrono::milliseconds;

// Returns ": message", or "" for an empty message.
std::string Detail(const std::string& message) { return message.empty() ? "" : ": " + message; }

constexpr milliseconds kIdleInterval{200};  // Time between two calls of `idle`.
constexpr size_t kObjectsPerBatch = 1000;   // Keeps a snapshot batch below about 2 MB.

class AgentClient : public Client {
 public:
  AgentClient(const std::string& target, const TlsMaterial& tls, milliseconds timeout)
      : target_(target), tls_(tls), timeout_(timeout) {
    Renew();
  }

  absl::StatusOr<v1::Ack> Apply(const v1::ApplyRequest& request) override {
    return Call(&v1::Control::Stub::Apply, request, timeout_);
  }

  absl::StatusOr<v1::Ack> Remove(const v1::RemoveRequest& request) override {
    return Call(&v1::Control::Stub::Remove, request, timeout_);
  }

  absl::StatusOr<v1::Ack> AcceptSnapshot() override {
    v1::AcceptSnapshotRequest request;
    request.set_protocol_version(kProtocolVersion);
    return Call(&v1::Control::Stub::AcceptSnapshot, request, timeout_);
  }

  absl::StatusOr<v1::GetStatusResponse> GetStatus(milliseconds at_most) override {
    return Call(&v1::Control::Stub::GetStatus, v1::GetStatusRequest(), std::min(at_most, timeout_));
  }

  absl::StatusOr<v1::GetStatusResponse> GetStatus() override { return GetStatus(timeout_); }

  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) override {
    return Call(&v1::Control::Stub::Explain, request, timeout_);
  }

  absl::Status List(const ObjectId& filter,
                    const std::function<bool(const v1::Object&)>& take) override {
    v1::ListRequest request;
    request.set_kind(filter.kind);
    request.set_namespace_(filter.name_space);
    request.set_name(filter.name);
    return Stream<v1::ListRequest, v1::ListResponse>(
        &v1::Control::Stub::PrepareAsyncList, request, [&take](const v1::ListResponse& part) {
          return std::all_of(part.objects().begin(), part.objects().end(), take);
        });
  }

  absl::Status Dump(v1::DumpRequest::What what,
                    const std::function<bool(const std::string& text)>& take) override {
    v1::DumpRequest request;
    request.set_what(what);
    return Stream<v1::DumpRequest, v1::DumpResponse>(
        &v1::Control::Stub::PrepareAsyncDump, request,
        [&take](const v1::DumpResponse& part) { return take(part.text()); });
  }

  absl::Status Watch(const std::function<bool(const v1::WatchEvent&)>& take,
                     const std::function<bool()>& idle) override {
    return Stream(&v1::Control::Stub::PrepareAsyncWatch, v1::WatchRequest(), take, idle);
  }

  absl::StatusOr<v1::Ack> Replace(const std::vector<v1::Object>& objects,
                                  bool accept_removals) override {
    const auto deadline = Clock::now() + timeout_;
    const bool connected = Connect(deadline);
    grpc::ClientContext context;
    context.set_deadline(deadline);
    const auto stream = stub_->Push(&context);
    v1::Ack all;
    uint64_t number = 0;
    const auto send = [&](const v1::PushRequest& request, bool answered) {
      v1::PushResponse response;
      if (!stream->Write(request) || (answered && !stream->Read(&response))) return false;
      if (!response.has_ack()) return true;
      all = Combine(std::move(all), std::move(*response.mutable_ack()));
      return true;
    };
    v1::PushRequest request;
    request.mutable_open()->set_name("svcmapctl");
    request.mutable_open()->set_protocol_version(kProtocolVersion);
    bool good = send(request, true);
    request.mutable_snapshot_begin();
    good = good && send(request, false);
    for (size_t begin = 0; begin < objects.size() && good; begin += kObjectsPerBatch) {
      v1::Batch* batch = request.mutable_batch();
      batch->Clear();
      batch->set_number(++number);
      const size_t end = std::min(objects.size(), begin + kObjectsPerBatch);
      for (size_t i = begin; i < end; ++i) {
        // The fields for objects have the same numbers in Object and Change.
        batch->add_changes()->ParseFromString(objects[i].SerializeAsString());
      }
      good = send(request, true);
    }
    request.mutable_snapshot_end()->set_number(++number);
    request.mutable_snapshot_end()->set_accept_removals(accept_removals);
    if (good && send(request, true)) stream->WritesDone();
    const grpc::Status status = stream->Finish();
    if (!status.ok()) return ErrorOf(status, connected, timeout_);
    return all;
  }

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&,
                                                                          Response*),
                                const Request& request, milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    const bool connected = Connect(deadline);
    grpc::ClientContext context;
    context.set_deadline(deadline);
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return ErrorOf(status, connected, timeout);
    return response;
  }

  template <typename Request, typename Response>
  absl::Status Stream(std::unique_ptr<grpc::ClientAsyncReader<Response>> (
                          v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                      grpc::CompletionQueue*),
                      const Request& request, const std::function<bool(const Response&)>& take,
                      const std::function<bool()>& idle = nullptr) {
    const bool connected = Connect(Clock::now() + timeout_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    bool late = false;
    bool patient = false;  // Call `idle` at intervals instead of returning an error after timeout_.
    bool stopped = false;
    // Waits for the pending operation. Sets no deadline in the client context, because that
    // deadline would include the time spent in `take`. `take` may block for a long time if standard
    // output is a pager.
    const auto completed = [&] {
      void* tag = nullptr;
      bool ok = false;
      while (queue.AsyncNext(&tag, &ok, Clock::now() + (patient ? kIdleInterval : timeout_)) ==
             grpc::CompletionQueue::TIMEOUT) {
        if (patient && idle()) continue;
        (patient ? stopped : late) = true;
        context.TryCancel();
        queue.Next(&tag, &ok);
        return false;
      }
      return ok;
    };
    const auto reader = (stub_.get()->*method)(&context, request, &queue);
    reader->StartCall(nullptr);
    bool more = completed();
    while (more && !stopped) {
      Response response;
      reader->Read(&response, nullptr);
      more = completed();
      if (more) stopped = !take(response);
      patient = idle != nullptr;
    }
    patient = false;
    if (stopped) context.TryCancel();
    grpc::Status status;
    reader->Finish(&status, nullptr);
    completed();
    if (stopped) return absl::OkStatus();
    if (late) return NoAnswer(timeout_);
    return status.ok() ? absl::OkStatus() : ErrorOf(status, connected, timeout_);
  }

  void Renew() {
    channel_ = NewChannel(target_, tls_);
    stub_ = v1::Control::NewStub(channel_);
  }

  // Combines the Acks of two batches of a snapshot. The Ack of the snapshot's end usually reports
  // no change, because the kernel already has the objects of the batches.
  static v1::Ack Combine(v1::Ack first, v1::Ack last) {
    first.mutable_results()->MergeFrom(last.results());
    last.mutable_results()->Swap(first.mutable_results());
    if (first.outcome() != v1::COMMITTED) return last;
    if (last.outcome() == v1::UNCHANGED) last.set_outcome(v1::COMMITTED);
    if (last.outcome() != v1::COMMITTED) return last;
    if (first.has_commit_duration()) *last.mutable_commit_duration() += first.commit_duration();
    if (first.has_queue_duration()) *last.mutable_queue_duration() += first.queue_duration();
    return last;
  }

  // Returns whether the channel is connected. If the channel is not connected, the next call fails
  // with the reason.
  bool Connect(Clock::time_point deadline) {
    // gRPC reconnects a failed channel only after a backoff time, and only while a call is waiting.
    // `svcmapctl wait` polls more often than gRPC reconnects, so each poll uses a new channel.
    if (channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_TRANSIENT_FAILURE) Renew();
    for (;;) {
      const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
      if (state == GRPC_CHANNEL_READY) return true;
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
      if (!channel_->WaitForStateChange(state, deadline)) return false;
    }
  }

  static absl::Status NoAnswer(milliseconds timeout) {
    return absl::DeadlineExceededError(absl::StrCat("timed out after ", DurationText(timeout)));
  }

  absl::Status ErrorOf(const grpc::Status& status, bool connected, milliseconds timeout) const {
    const std::string& message = status.error_message();
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
        if (!connected) return absl::UnavailableError(ConnectAdvice(message, target_, tls_));
        return absl::DeadlineExceededError(absl::StrCat("connection lost", Detail(message)));
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        if (connected) return NoAnswer(timeout);
        return absl::UnavailableError(
            absl::StrCat("connection timed out after ", DurationText(timeout)));
      default:
        return {static_cast<absl::StatusCode>(status.error_code()),
                absl::StrCat(CodeName(status.error_code()), Detail(message))};
    }
  }

  const std::string target_;
  const TlsMaterial tls_;
  const milliseconds timeout_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Control::Stub> stub_;
};

}  // namespace

absl::Status Reader::ForEach(const ObjectId& filter,
                             const std::function<void(const v1::Object&)>& take) {
  return List(filter, [&take](const v1::Object& object) {
    take(object);
    return true;
  });
}

std::unique_ptr<Client> NewClient(const std::string& target, const TlsMaterial& tls,
                                  milliseconds timeout) {
  return std::make_unique<AgentClient>(target, tls, timeout);
}

}  // namespace svcmap::api
