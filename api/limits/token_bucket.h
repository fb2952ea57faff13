// A rate limit that permits a burst of `burst` tokens, and then `rate` tokens per second. Charge
// can make the number of tokens negative, down to -`burst`. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>

namespace svcmap::api {

class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;

  TokenBucket(double burst, double rate, Clock::time_point now)
      : burst_(burst), rate_(rate), tokens_(burst), last_(now) {}

  // Takes `tokens` tokens and returns true. If fewer tokens are left, takes no token and returns
  // false.
  bool Take(double tokens, Clock::time_point now) {
    Refill(now);
    if (tokens_ < tokens) return false;
    tokens_ -= tokens;
    return true;
  }
  // Takes `tokens` tokens even if fewer are left. Take then fails until the debt is refilled.
  void Charge(double tokens, Clock::time_point now) {
    Refill(now);
    tokens_ = std::max(-burst_, tokens_ - tokens);
  }
  void Add(double tokens) { tokens_ = std::min(burst_, tokens_ + tokens); }
  bool full(Clock::time_point now) const {
    return tokens_ + std::chrono::duration<double>(now - last_).count() * rate_ >= burst_;
  }

 private:
  void Refill(Clock::time_point now) {
    if (now <= last_) return;
    Add(std::chrono::duration<double>(now - last_).count() * rate_);
    last_ = now;
  }

  double burst_;
  double rate_;
  double tokens_;
  Clock::time_point last_;
};

}  // namespace svcmap::api
