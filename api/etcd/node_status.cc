#include "api/etcd/node_status.h"

#include <algorithm>
#include <utility>

namespace svcmap::etcd {

using fleet::NodeStatus;

StatusWriter::StatusWriter(Clock::time_point now, Backoff::Random random)
    : started_(now),
      backoff_(std::chrono::seconds(1), std::chrono::seconds(60), {}, std::move(random)),
      periodic_(now + backoff_.RandomPart(kPeriod)),
      not_before_(now) {}

void StatusWriter::Asked(const fleet::Ask& ask) {
  // A restarted process finds the request that the earlier process has answered.
  if (!written_ && stored_ && stored_->seq >= ask.seq) return;
  ask_ = ask;
  not_before_ = {};
}

bool StatusWriter::Changed(const NodeStatus& status, Clock::time_point now) const {
  if (!status.healthy && !written_ && now - started_ < kStartTime) return false;
  if (written_ && now - *written_ < kChangeInterval) return false;
  if (!stored_) return !status.healthy || status.rejected != 0 || status.held;
  return status.healthy != stored_->healthy || status.rejected != stored_->rejected ||
         status.held != stored_->held || status.agent != stored_->agent;
}

bool StatusWriter::Due(const NodeStatus& status, Clock::time_point now) {
  if (ask_ && status.seq >= ask_->seq) {
    const auto answer = now + backoff_.RandomPart(ask_->window);
    answer_ = std::min(answer_.value_or(answer), answer);
    ask_.reset();
  }
  if (now < not_before_) return false;
  if (answer_ && now >= *answer_) return true;
  if (now >= periodic_) {
    if (!written_ || now - *written_ >= kPeriod / 2) return true;
    while (periodic_ <= now) periodic_ += kPeriod;
  }
  return Changed(status, now);
}

void StatusWriter::Written(const NodeStatus& status, Clock::time_point now) {
  backoff_.Success(now);
  stored_ = status;
  written_ = now;
  while (periodic_ <= now) periodic_ += kPeriod;  // Other writes do not change the phase.
  answer_.reset();
}

bool StatusWriter::Failed(Clock::time_point now) {
  not_before_ = now + backoff_.Failure(now);
  return backoff_.failures() == 1;
}

}  // namespace svcmap::etcd
