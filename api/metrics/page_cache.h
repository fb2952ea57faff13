// Limits the CPU time for rendering a page. If requests arrive faster than the limit permits, they
// receive the latest version of the page, which all responses share. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/limits/token_bucket.h"

namespace svcmap::api {

class PageCache {
 public:
  // Rendering uses at most a tenth of the time, after a burst of 200 ms. Each rendering counts as
  // at least 10 ms. Therefore a page that renders quickly is at most 100 ms old.
  explicit PageCache(std::function<std::string()> render)
      : render_(std::move(render)), seconds_(kBurst, kShare, Clock::now()) {}

  std::shared_ptr<const std::string> Get() {
    const auto before = Clock::now();
    if (page_ && !seconds_.Take(cost_, before)) return page_;
    page_ = std::make_shared<const std::string>(render_());
    const std::chrono::duration<double> took = Clock::now() - before;
    cost_ = std::clamp(took.count(), kLeastCost, kBurst);
    return page_;
  }

 private:
  using Clock = TokenBucket::Clock;
  static constexpr double kBurst = 0.2;
  static constexpr double kShare = 0.1;
  static constexpr double kLeastCost = 0.01;

  const std::function<std::string()> render_;
  TokenBucket seconds_;
  double cost_ = kLeastCost;  // Time of the latest rendering, in seconds.
  std::shared_ptr<const std::string> page_;
};

}  // namespace svcmap::api
