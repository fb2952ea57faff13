#include "api/etcd/client.h"

#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/connect/channel.h"
#include "api/connect/target.h"
#include "api/convert/quote.h"
#include "api/log/log_value.h"
#include "api/source/stop_flag.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"

namespace svcmap::etcd {
namespace {

using Clock = Follower::Clock;

// gRPC compares deadlines with the system clock. The steady clock is not affected by clock changes.
std::chrono::system_clock::time_point SystemTime(Clock::time_point time) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(time - Clock::now());
}

// Returns an error with the host and the port of the target.
absl::Status StatusOf(const std::string& target, const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()),  // The numbers are the same.
          target.substr(target.rfind('/') + 1) + ": " + status.error_message()};
}

// One call of etcdserverpb.Watch. All functions must be called on the same thread, one after the
// other. After a result other than kDone, only Finish may be called.
class WatchCall {
 public:
  // Starts the call. `context` and the responses that Read receives must outlive the WatchCall.
  WatchCall(etcdserverpb::Watch::Stub& stub, grpc::ClientContext& context) : context_(context) {
    // A member that has lost the leader ends the watch, because it cannot receive changes.
    context.AddMetadata("hasleader", "true");
    stream_ = stub.AsyncWatch(&context, &queue_, this);
  }

  ~WatchCall() {
    context_.TryCancel();  // A call that has ended is not affected.
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) continue;
  }

  enum class Result : uint8_t { kDone, kTimeout, kEnded };
  Result AwaitStart(Clock::time_point deadline) { return Await(deadline); }

  Result Write(const etcdserverpb::WatchCreateRequest& create, Clock::time_point deadline) {
    etcdserverpb::WatchRequest request;
    *request.mutable_create_request() = create;
    stream_->Write(request, this);
    return Await(deadline);
  }

  Result Read(etcdserverpb::WatchResponse& response, Clock::time_point deadline) {
    stream_->Read(&response, this);
    return Await(deadline);
  }

  // Returns the status after kEnded.
  grpc::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, this);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return status;
  }

 private:
  Result Await(Clock::time_point deadline) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, SystemTime(deadline)) == grpc::CompletionQueue::TIMEOUT) {
      return Result::kTimeout;
    }
    return ok ? Result::kDone : Result::kEnded;
  }

  grpc::ClientContext& context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      stream_;
};

}  // namespace

absl::StatusOr<std::string> ParseEndpoint(const std::string& url) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!url.starts_with(scheme)) continue;
    absl::StatusOr<std::string> target = api::ParseTarget("tcp://" + url.substr(scheme.size()));
    if (target.ok()) return target;
  }
  return absl::InvalidArgumentError("Invalid value: " + api::Quote(url) +
                                    ": must be http://HOST:PORT or https://HOST:PORT");
}

// Sends the requests that the Follower chooses and passes the results to it. Only the worker thread
// uses the Follower.
class Client::Worker {
 public:
  Worker(EtcdOptions options, Mirror& mirror)
      : options_(std::move(options)),
        follower_(options_.follower, mirror),
        thread_([this] { Run(); }) {}

  ~Worker() {
    stop_.Set();
    {
      const std::lock_guard lock(mutex_);
      if (context_ != nullptr) context_->TryCancel();
    }
    thread_.join();
  }

  FollowerFacts facts() const {
    const std::lock_guard lock(mutex_);
    return facts_;
  }

 private:
  void Run() {
    next_endpoint_ = static_cast<size_t>(Backoff::SeededRandom()() *
                                         static_cast<double>(options_.endpoints.size()));
    while (stop_.WaitUntil(follower_.not_before())) {
      const Follower::Request request = follower_.Next(Clock::now());
      if (request.reconnect) channel_.reset();
      if (absl::Status status = Connect(); !status.ok()) {
        follower_.Failed(status, Clock::now());
      } else {
        grpc::ClientContext context;
        SetContext(&context);
        if (request.read) {
          Read(request, context);
        } else {
          malloc_trim(0);  // A list before the watch takes several times the size of the objects.
          Watch(request, context);
        }
        SetContext(nullptr);
      }
      Publish();
    }
  }

  absl::Status Connect() {
    if (channel_ != nullptr) return absl::OkStatus();
    const absl::StatusOr<api::TlsMaterial> tls = api::ReadTlsFiles(options_.tls);
    if (!tls.ok()) return tls.status();
    if (absl::Status status = api::CheckTlsMaterial(*tls, options_.tls); !status.ok()) {
      return status;
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // Connection timeout.
    // Detects a dead peer within 15 s. etcd permits a ping every 5 s.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    endpoint_ = options_.endpoints[next_endpoint_++ % options_.endpoints.size()];
    channel_ = api::NewChannel(endpoint_, *tls, arguments);
    spdlog::debug("connecting to etcd endpoint={}", api::LogValue(endpoint_));
    return absl::OkStatus();
  }

  void Read(const Follower::Request& request, grpc::ClientContext& context) {
    context.set_deadline(SystemTime(Clock::now() + request.timeout));
    etcdserverpb::TxnResponse response;
    const grpc::Status status =
        etcdserverpb::KV::NewStub(channel_)->Txn(&context, *request.read, &response);
    if (stop_.is_set()) return;
    if (!status.ok()) return follower_.Failed(StatusOf(endpoint_, status), Clock::now());
    follower_.Read(response, Clock::now());
  }

  void Watch(const Follower::Request& request, grpc::ClientContext& context) {
    using Result = WatchCall::Result;
    const std::unique_ptr<etcdserverpb::Watch::Stub> stub = etcdserverpb::Watch::NewStub(channel_);
    etcdserverpb::WatchResponse response;
    WatchCall call(*stub, context);
    Result result = call.AwaitStart(follower_.silence_deadline());
    for (const etcdserverpb::WatchCreateRequest& create : request.watches) {
      if (result != Result::kDone) break;
      result = call.Write(create, follower_.silence_deadline());
    }
    while (result == Result::kDone) {
      Publish();
      result = call.Read(response, follower_.silence_deadline());
      if (result == Result::kDone && !follower_.Event(response, Clock::now())) return;
    }
    if (stop_.is_set()) return;
    if (result == Result::kTimeout) return follower_.Silent(Clock::now());
    const grpc::Status status = call.Finish();
    follower_.Failed(status.ok() ? absl::UnavailableError("etcd has ended the watch")
                                 : StatusOf(endpoint_, status),
                     Clock::now());
  }

  // Lets the destructor cancel the request. If the destructor has already begun, cancels it itself.
  void SetContext(grpc::ClientContext* context) {
    const std::lock_guard lock(mutex_);
    context_ = context;
    if (context != nullptr && stop_.is_set()) context->TryCancel();
  }

  void Publish() {
    for (const Follower::Line& line : follower_.TakeLines()) {
      spdlog::log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
    }
    const std::lock_guard lock(mutex_);
    facts_ = follower_.facts();
  }

  const EtcdOptions options_;
  Follower follower_;
  std::shared_ptr<grpc::Channel> channel_;  // Null: the next request needs a new connection.
  size_t next_endpoint_ = 0;
  std::string endpoint_;

  source::StopFlag stop_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  grpc::ClientContext* context_ = nullptr;  // Of the current request.
  FollowerFacts facts_;

  std::thread thread_;  // Last, because the thread uses all members above.
};

std::unique_ptr<Client> Client::Start(EtcdOptions options, Mirror& mirror) {
  return std::unique_ptr<Client>(new Client(std::make_unique<Worker>(std::move(options), mirror)));
}

Client::Client(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
Client::~Client() = default;

FollowerFacts Client::facts() const { return worker_->facts(); }

}  // namespace svcmap::etcd
