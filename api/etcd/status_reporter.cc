#include "api/etcd/status_reporter.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "api/log/log_value.h"
#include "api/process/wait.h"

namespace svcmap::etcd {

using Clock = StatusWriter::Clock;
using Result = WatchCall::Result;

constexpr std::chrono::milliseconds kTick{250};
constexpr std::chrono::seconds kStatusTimeout{5};

fleet::NodeStatus StatusOf(const Facts& facts, const std::string& version,
                           fleet::SystemTimePoint time) {
  const api::Answer health = HealthzAnswer(facts);
  fleet::NodeStatus status{.seq = facts.push.position,
                           .epoch = facts.etcd.head.epoch,
                           .revision = facts.etcd.revision,
                           .healthy = health.code == 200,
                           .reason = {},
                           .rejected = facts.push.rejected + facts.etcd.rejected_keys,
                           .held = !facts.push.held.empty(),
                           .version = version,
                           .time = std::chrono::time_point_cast<std::chrono::seconds>(time)};
  if (!status.healthy) {
    status.reason = absl::StrReplaceAll(absl::StripSuffix(health.body, "\n"), {{"\n", "; "}});
  }
  return status;
}

StatusReporter::StatusReporter(fleet::EtcdServers servers, const std::string& prefix,
                               const std::string& node_name, std::string agent_address,
                               std::function<Facts()> facts)
    : status_key_(fleet::StatusKey(prefix, node_name)),
      ask_key_(fleet::AskKey(prefix)),
      agent_address_(std::move(agent_address)),
      facts_(std::move(facts)),
      connection_(std::move(servers)),
      thread_([this](std::stop_token stop) {
        stop_ = std::move(stop);
        Run();
      }) {}

void StatusReporter::Run() {
  Backoff backoff(std::chrono::seconds(1), std::chrono::seconds(60), std::chrono::minutes(1));
  while (!stop_.stop_requested()) {
    const absl::Status end = Round(backoff);
    if (stop_.stop_requested()) return;
    connection_.Drop();
    const auto delay = backoff.Failure();
    if (backoff.failures() == 1) {
      spdlog::warn("watching {} failed, retrying error={}", ask_key_, api::LogValue(end));
    }
    // The next round writes a status that becomes due during the delay.
    if (!api::WaitUntil(stop_, Clock::now() + delay)) return;
  }
}

absl::Status StatusReporter::Round(Backoff& backoff) {
  if (absl::Status status = connection_.Connect(); !status.ok()) return status;
  etcdserverpb::TxnRequest read;
  read.add_success()->mutable_request_range()->set_key(ask_key_);
  read.add_success()->mutable_request_range()->set_key(status_key_);
  const absl::StatusOr<etcdserverpb::TxnResponse> found = Call(read);
  if (!found.ok()) return found.status();
  if (!std::exchange(read_, true)) {
    for (const auto& pair : found->responses(1).response_range().kvs()) {
      const auto stored = fleet::ParseStatus(pair.value());
      if (stored.ok()) writer_.Found(*stored);
    }
  }
  for (const auto& pair : found->responses(0).response_range().kvs()) TakeAsk(pair);

  const auto stub = etcdserverpb::Watch::NewStub(connection_.channel());
  grpc::ClientContext context;
  const std::stop_callback cancel(stop_, [&context] { context.TryCancel(); });
  etcdserverpb::WatchResponse response;
  WatchCall call(*stub, context);
  etcdserverpb::WatchCreateRequest create;
  create.set_key(ask_key_);
  create.set_start_revision(found->header().revision() + 1);
  Result result = Await(call, call.Resume(Clock::now() + kTick));
  if (result == Result::kDone) result = Await(call, call.Write(create, Clock::now() + kTick));
  while (result == Result::kDone) {
    result = Await(call, call.Read(response, Clock::now() + kTick));
    if (result != Result::kDone) break;
    if (response.canceled()) {
      return absl::UnavailableError("etcd has canceled the watch: " + response.cancel_reason());
    }
    backoff.Success();
    for (const etcdserverpb::Event& event : response.events()) {
      if (event.type() == etcdserverpb::Event::PUT) TakeAsk(event.kv());
    }
    WriteIfDue();  // Requests in quick succession leave no time in Await().
  }
  return result == Result::kEnded ? connection_.ErrorOf(call.Finish()) : absl::OkStatus();
}

WatchCall::Result StatusReporter::Await(WatchCall& call, Result result) {
  while (result == Result::kTimeout && !stop_.stop_requested()) {
    WriteIfDue();
    result = call.Resume(Clock::now() + kTick);
  }
  return result;
}

void StatusReporter::TakeAsk(const etcdserverpb::KeyValue& pair) {
  if (pair.mod_revision() == ask_revision_) return;
  ask_revision_ = pair.mod_revision();
  const absl::StatusOr<fleet::Ask> ask = fleet::ParseAsk(pair.value());
  if (ask.ok()) return writer_.Asked(*ask);
  spdlog::warn("request ignored key={} error={}", ask_key_, api::LogValue(ask.status()));
}

void StatusReporter::WriteIfDue() {
  fleet::NodeStatus status = StatusOf(facts_(), SVCMAP_VERSION, std::chrono::system_clock::now());
  status.agent = agent_address_;
  if (!writer_.Due(status, Clock::now())) return;
  etcdserverpb::TxnRequest write;
  fleet::AddPut(status_key_, fleet::ToJson(status), write);
  const absl::StatusOr<etcdserverpb::TxnResponse> answer = Call(write);
  if (answer.ok()) return writer_.Written(status, Clock::now());
  ++failures_;
  if (writer_.Failed(Clock::now()) && !stop_.stop_requested()) {
    spdlog::warn("writing the status failed, retrying key={} error={}", status_key_,
                 api::LogValue(answer.status()));
  }
}

absl::StatusOr<etcdserverpb::TxnResponse> StatusReporter::Call(
    const etcdserverpb::TxnRequest& request) {
  grpc::ClientContext context;
  const std::stop_callback cancel(stop_, [&context] { context.TryCancel(); });
  return connection_.Txn(request, kStatusTimeout, context);
}

}  // namespace svcmap::etcd
