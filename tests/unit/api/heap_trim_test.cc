#include "api/process/heap_trim.h"

#include <gtest/gtest.h>

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;

class HeapTrimTest : public ::testing::Test {
 protected:
  void Sync(size_t elements) { trim_.AfterSync(elements, now_); }

  HeapTrim::Clock::time_point now_ = HeapTrim::Clock::now();
  HeapTrim trim_;
};

TEST_F(HeapTrimTest, SmallChangesDoNotTrim) {
  Sync(HeapTrim::kManyElements - 1);
  trim_.AfterChange(HeapTrim::kManyBytes, now_);
  trim_.AfterChange(1, now_);
  EXPECT_FALSE(trim_.TakeDue(now_ + HeapTrim::kDelay));
}

TEST_F(HeapTrimTest, ALoadIsTrimmedAfterItsEnd) {
  const auto start = now_;
  for (int i = 0; i < 10; ++i, now_ += milliseconds(100)) Sync(HeapTrim::kManyElements);
  EXPECT_FALSE(trim_.TakeDue(start + HeapTrim::kDelay - milliseconds(1)));
  EXPECT_TRUE(trim_.TakeDue(start + HeapTrim::kDelay));
  EXPECT_FALSE(trim_.TakeDue(start + HeapTrim::kDelay));
}

TEST_F(HeapTrimTest, SmallChangesAddUp) {
  for (size_t i = 0; i < HeapTrim::kManyElements; ++i) Sync(1);
  EXPECT_TRUE(trim_.TakeDue(now_ + HeapTrim::kDelay));
}

TEST_F(HeapTrimTest, RemovedBytesAreTrimmed) {
  trim_.AfterChange(4 * HeapTrim::kManyBytes, now_);
  trim_.AfterChange(3 * HeapTrim::kManyBytes, now_);
  EXPECT_TRUE(trim_.TakeDue(now_ + HeapTrim::kDelay));
}

}  // namespace
}  // namespace svcmap::api
