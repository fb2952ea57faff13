#include "api/process/heap_trim.h"

#include <gtest/gtest.h>

#include <future>

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;

class HeapTrimTest : public ::testing::Test {
 protected:
  void Sync(size_t elements) { trim_.AfterSync(elements, now_); }

  HeapTrim::Clock::time_point now_ = HeapTrim::Clock::now();
  int trims_ = 0;
  HeapTrim trim_{[this] { ++trims_; }, /*own_thread=*/false};
};

TEST_F(HeapTrimTest, SmallChangesDoNotTrim) {
  Sync(HeapTrim::kManyElements - 1);
  EXPECT_FALSE(trim_.AfterChange(HeapTrim::kManyBytes, now_));
  EXPECT_FALSE(trim_.AfterChange(1, now_));
  EXPECT_EQ(trim_.TrimIfDue(now_ + HeapTrim::kDelay), std::nullopt);
  EXPECT_EQ(trims_, 0);
}

TEST_F(HeapTrimTest, ALoadIsTrimmedAfterItsEnd) {
  const auto start = now_;
  for (int i = 0; i < 10; ++i, now_ += milliseconds(100)) Sync(HeapTrim::kManyElements);
  EXPECT_EQ(trim_.TrimIfDue(now_), start + HeapTrim::kDelay);
  EXPECT_EQ(trims_, 0);
  EXPECT_EQ(trim_.TrimIfDue(start + HeapTrim::kDelay), std::nullopt);
  EXPECT_EQ(trims_, 1);
}

TEST_F(HeapTrimTest, SmallChangesAddUp) {
  for (size_t i = 0; i < HeapTrim::kManyElements; ++i) Sync(1);
  EXPECT_EQ(trim_.TrimIfDue(now_), now_ + HeapTrim::kDelay);
}

TEST_F(HeapTrimTest, RemovedBytesAreTrimmed) {
  EXPECT_FALSE(trim_.AfterChange(4 * HeapTrim::kManyBytes, now_));
  EXPECT_FALSE(trim_.AfterChange(3 * HeapTrim::kManyBytes, now_));
  EXPECT_EQ(trim_.TrimIfDue(now_), now_ + HeapTrim::kDelay);
  EXPECT_TRUE(trim_.AfterChange(2 * HeapTrim::kManyBytes, now_)) << "half of the bytes are removed";
}

TEST(HeapTrimThread, TrimsWithoutAFurtherChange) {
  std::promise<void> trimmed;
  HeapTrim trim([&trimmed] { trimmed.set_value(); });
  trim.AfterSync(HeapTrim::kManyElements, HeapTrim::Clock::now() - HeapTrim::kDelay);
  EXPECT_EQ(trimmed.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

}  // namespace
}  // namespace svcmap::api
