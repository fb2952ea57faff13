// How long to wait after a failure: longer each time, and not as long as everybody else.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

namespace svcmap::kube {

using Random = std::function<double()>;  // In [0, 1).

// Not thread-safe.
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::minutes kGoodTime{1};

  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds last, Random random)
      : first_(first), last_(last), delay_(first), random_(std::move(random)) {}

  // Things go well; called as often as one likes.
  void Success(Clock::time_point now) {
    if (!well_since_) well_since_ = now;
  }

  // The wait: the second half of it is random. From the beginning again only after a good time: an
  // API server that answers one request in two is not well.
  std::chrono::milliseconds Failure(Clock::time_point now) {
    if (well_since_ && now - *well_since_ >= kGoodTime) delay_ = first_;
    well_since_.reset();
    const std::chrono::milliseconds delay = delay_;
    delay_ = std::min(2 * delay_, last_);
    return delay / 2 + Part(delay / 2);
  }

  std::chrono::milliseconds Part(std::chrono::milliseconds of) const {  // A random one.
    return std::chrono::milliseconds(
        static_cast<int64_t>(static_cast<double>(of.count()) * random_()));
  }

 private:
  const std::chrono::milliseconds first_;
  const std::chrono::milliseconds last_;
  std::chrono::milliseconds delay_;
  std::optional<Clock::time_point> well_since_;
  const Random random_;
};

}  // namespace svcmap::kube
