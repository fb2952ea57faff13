#include "api/etcd/client.h"

#include <malloc.h>

#include <utility>

#include "api/etcd/watch_call.h"
#include "api/process/wait.h"

namespace svcmap::etcd {

using Clock = Follower::Clock;

Client::Client(EtcdOptions options, Mirror& mirror)
    : follower_(options.follower, mirror),
      connection_(std::move(options)),
      thread_([this](std::stop_token stop) {
        stop_ = std::move(stop);
        Run();
      }) {}

FollowerFacts Client::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

void Client::Run() {
  while (api::WaitUntil(stop_, follower_.not_before())) {
    const Follower::Request request = follower_.Next(Clock::now());
    if (absl::Status status = connection_.Connect(); !status.ok()) {
      follower_.Failed(status, Clock::now());
    } else {
      grpc::ClientContext context;
      const std::stop_callback cancel(stop_, [&context] { context.TryCancel(); });
      if (request.read) {
        Read(request, context);
      } else {
        malloc_trim(0);  // A list before the watch takes several times the size of the objects.
        Watch(request, context);
      }
    }
    if (follower_.TakeReconnect()) connection_.Drop();
    Publish();
  }
}

void Client::Read(const Follower::Request& request, grpc::ClientContext& context) {
  const absl::StatusOr<etcdserverpb::TxnResponse> response =
      connection_.Txn(*request.read, request.timeout, context);
  if (stop_.stop_requested()) return;
  if (!response.ok()) return follower_.Failed(response.status(), Clock::now());
  follower_.Read(*response, Clock::now());
}

void Client::Watch(const Follower::Request& request, grpc::ClientContext& context) {
  using Result = WatchCall::Result;
  const std::unique_ptr<etcdserverpb::Watch::Stub> stub =
      etcdserverpb::Watch::NewStub(connection_.channel());
  etcdserverpb::WatchResponse response;
  WatchCall call(*stub, context);
  Result result = call.Resume(follower_.silence_deadline());
  for (const etcdserverpb::WatchCreateRequest& create : request.watches) {
    if (result != Result::kDone) break;
    result = call.Write(create, follower_.silence_deadline());
  }
  while (result == Result::kDone) {
    Publish();
    result = call.Read(response, follower_.silence_deadline());
    if (result == Result::kDone && !follower_.Event(response, Clock::now())) return;
  }
  if (stop_.stop_requested()) return;
  if (result == Result::kTimeout) return follower_.Silent(Clock::now());
  const grpc::Status status = call.Finish();
  follower_.Failed(status.ok() ? absl::UnavailableError("etcd has ended the watch")
                               : connection_.ErrorOf(status),
                   Clock::now());
}

void Client::Publish() {
  const std::lock_guard lock(mutex_);
  facts_ = follower_.facts();
}

}  // namespace svcmap::etcd
