#include "tests/protocol/sinful_agent.h"

#include <cstdint>
#include <optional>

namespace svcmap::protocol {
namespace {

constexpr size_t kInFlight = 64;
constexpr uint64_t kSwapped = 5000;  // Number of the batch whose Ack is sent after the next Ack.

}  // namespace

SinfulAgent::Answers::~Answers() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SinfulAgent::Answers::Add(const v1::PushResponse& answer) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.size() < limit_; });
  waiting_.push_back(answer);
  changed_.notify_all();
}

void SinfulAgent::Answers::Run(Stream& stream) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const v1::PushResponse answer = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    lock.unlock();
    stream.Write(answer);
    lock.lock();
  }
}

grpc::Status SinfulAgent::Push(grpc::ServerContext*, Stream* stream) {
  Answers answers(*stream, sin_ == Sin::kReadsWithoutEnd ? SIZE_MAX : kInFlight);
  uint64_t last = 0;
  std::optional<v1::PushResponse> kept;
  for (v1::PushRequest request; stream->Read(&request);) {
    if (request.has_snapshot_begin()) continue;
    v1::PushResponse answer;
    if (request.has_open()) {
      answer.mutable_opened()->mutable_limits()->set_max_batches_in_flight(kInFlight);
      answers.Add(answer);
      continue;
    }
    const uint64_t number =
        request.has_batch() ? request.batch().number() : request.snapshot_end().number();
    if (number <= last && sin_ != Sin::kTakesRepeatedNumbers) {
      return {grpc::INVALID_ARGUMENT, "batch number " + std::to_string(number) +
                                          " does not follow " + std::to_string(last)};
    }
    last = number;
    answer.mutable_ack()->set_number(number);
    answer.mutable_ack()->set_outcome(v1::COMMITTED);
    if (sin_ == Sin::kSwapsTwoAcks && number == kSwapped) {
      kept = answer;
      continue;
    }
    answers.Add(answer);
    if (kept) answers.Add(*std::exchange(kept, std::nullopt));
  }
  return grpc::Status::OK;
}

}  // namespace svcmap::protocol
