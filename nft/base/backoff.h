// Delays between attempts. Each delay is twice as long as the previous one, up to a maximum. The
// second half of each delay is random, so that nodes that failed together retry at different times.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <utility>

namespace svcmap {

// Not thread-safe.
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;
  using Random = std::function<double()>;  // Returns a number in [0, 1).

  static Random SeededRandom() {
    return [engine = std::minstd_rand(std::random_device()())]() mutable {
      return std::uniform_real_distribution<double>()(engine);
    };
  }

  // After a failure that follows less than `good_time` of success, the delay continues to grow.
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds last,
          std::chrono::milliseconds good_time = {}, Random random = SeededRandom())
      : first_(first),
        last_(last),
        good_time_(good_time),
        delay_(first),
        random_(std::move(random)) {}

  // May be called after each successful attempt.
  void Success(Clock::time_point now = Clock::now()) {
    failures_ = 0;
    if (!good_since_) good_since_ = now;
  }

  // Returns the delay before the next attempt.
  std::chrono::milliseconds Failure(Clock::time_point now = Clock::now()) {
    if (good_since_ && now - *good_since_ >= good_time_) delay_ = first_;
    good_since_.reset();
    ++failures_;
    const std::chrono::milliseconds delay = delay_;
    delay_ = std::min(2 * delay_, last_);
    return delay / 2 + RandomPart(delay / 2);
  }

  // The number of failures since the last success.
  int failures() const { return failures_; }

  std::chrono::milliseconds RandomPart(std::chrono::milliseconds of) const {
    return std::chrono::milliseconds(
        static_cast<int64_t>(static_cast<double>(of.count()) * random_()));
  }

 private:
  const std::chrono::milliseconds first_;
  const std::chrono::milliseconds last_;
  const std::chrono::milliseconds good_time_;
  std::chrono::milliseconds delay_;
  std::optional<Clock::time_point> good_since_;
  int failures_ = 0;
  Random random_;
};

}  // namespace svcmap
