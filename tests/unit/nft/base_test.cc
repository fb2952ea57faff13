#include "nft/base/backoff.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "nft/base/status.h"

namespace svcmap {
namespace {

using std::chrono::milliseconds;

TEST(BackoffTest, DelaysDoubleUpToTheMaximumUntilASuccess) {
  Backoff backoff(milliseconds(100), milliseconds(350), {}, [] { return 0.0; });
  EXPECT_EQ(backoff.Failure(), milliseconds(50));
  EXPECT_EQ(backoff.Failure(), milliseconds(100));
  EXPECT_EQ(backoff.Failure(), milliseconds(175));
  EXPECT_EQ(backoff.Failure(), milliseconds(175));
  EXPECT_EQ(backoff.failures(), 4);
  backoff.Success();
  EXPECT_EQ(backoff.failures(), 0);
  EXPECT_EQ(backoff.Failure(), milliseconds(50));
}

TEST(BackoffTest, TheSecondHalfOfADelayIsRandom) {
  Backoff backoff(milliseconds(100), milliseconds(1000), {}, [] { return 0.9; });
  EXPECT_EQ(backoff.Failure(), milliseconds(95));
  EXPECT_EQ(backoff.Failure(), milliseconds(190));
  Backoff seeded(milliseconds(100), milliseconds(100));
  for (int i = 0; i < 1000; ++i) {
    const milliseconds delay = seeded.Failure();
    ASSERT_GE(delay, milliseconds(50));
    ASSERT_LT(delay, milliseconds(100));
  }
}

TEST(BackoffTest, AShortSuccessDoesNotShortenTheNextDelay) {
  const Backoff::Clock::time_point start;
  Backoff backoff(milliseconds(100), milliseconds(1000), std::chrono::minutes(1),
                  [] { return 0.0; });
  EXPECT_EQ(backoff.Failure(start), milliseconds(50));
  backoff.Success(start);
  backoff.Success(start + std::chrono::seconds(59));  // The first success counts.
  EXPECT_EQ(backoff.Failure(start + std::chrono::seconds(59)), milliseconds(100));
  backoff.Success(start);
  EXPECT_EQ(backoff.Failure(start + std::chrono::minutes(1)), milliseconds(50));
}

// The reconciler retries the commit after these errors. It must not conclude that the kernel
// rejects a Service.
TEST(StatusTest, ExhaustedResourcesHaveOneCode) {
  for (const int error : {EMFILE, ENOMEM, ENOBUFS, ENOSPC, EMSGSIZE}) {
    EXPECT_EQ(ErrnoStatus(error, "send").code(), absl::StatusCode::kResourceExhausted) << error;
  }
}

}  // namespace
}  // namespace svcmap
