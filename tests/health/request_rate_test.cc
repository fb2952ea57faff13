// Tests of the limit per connection and of the order of delayed responses, with a simulated clock.
#include "api/health/connections.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace svcmap::api::test {
namespace {

using std::chrono::nanoseconds;
using Time = RequestRate::Clock::time_point;

TEST(RequestRateTest, PermitsABurstAndThenOneResponsePerInterval) {
  const Time start{};
  RequestRate rate(start);
  EXPECT_FALSE(rate.has_response());
  for (int i = 0; i < kRequestBurst; ++i) {
    EXPECT_LE(rate.permitted(), start) << i;
    rate.CountResponse(start);
  }
  EXPECT_TRUE(rate.has_response());
  EXPECT_EQ(rate.permitted(), start + kRequestInterval);
  rate.CountResponse(rate.permitted());
  EXPECT_EQ(rate.permitted(), start + 2 * kRequestInterval);
}

TEST(RequestRateTest, ABurstIsPermittedAgainAfterSilence) {
  RequestRate rate(Time{});
  for (int i = 0; i < kRequestBurst; ++i) rate.CountResponse(Time{});
  const Time later = Time{} + kRequestBurst * kRequestInterval;
  for (int i = 0; i < kRequestBurst; ++i) {
    EXPECT_LE(rate.permitted(), later) << i;
    rate.CountResponse(later);
  }
  EXPECT_GT(rate.permitted(), later);
}

// 900 connections always have a request. The limit for all connections together permits the rate of
// responses. A client with a kept connection sends one request per second.
TEST(RequestRateTest, AConnectionWithFewRequestsIsBeforeConnectionsWithManyRequests) {
  const nanoseconds per_response(static_cast<int64_t>(1e9 / kMaxResponsesPerSecond));
  Time now{};
  std::vector<RequestRate> flood(900, RequestRate(now));
  RequestRate calm(now);
  calm.CountResponse(now);
  std::set<std::pair<Time, size_t>> delayed;
  for (size_t i = 0; i < flood.size(); ++i) delayed.insert({flood[i].permitted(), i});
  for (int second = 0; second < 10; ++second) {
    for (int i = 0; i < kMaxResponsesPerSecond; ++i) {
      now += per_response;
      const auto [permitted, next] = *delayed.begin();
      if (permitted > now) continue;
      delayed.erase(delayed.begin());
      flood[next].CountResponse(now);
      delayed.insert({flood[next].permitted(), next});
    }
    EXPECT_LE(calm.permitted(), now);
    EXPECT_LT(calm.permitted(), delayed.begin()->first) << "after " << second << " s";
    calm.CountResponse(now);
  }
}

}  // namespace
}  // namespace svcmap::api::test
