// Assertions for absl::Status and absl::StatusOr in tests. Debian's absl (20220623) does not
// contain such assertions.
//
// EXPECT_OK(server->Listen(binding));
// ASSERT_OK_AND_ASSIGN(auto topology, Topology::Create());
//
// The ASSERT_ macros return from the current function, which must return void.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// Predicate formatter for EXPECT_PRED_FORMAT1 that accepts Status and StatusOr.
struct IsOkFormat {
  template <typename T>
  ::testing::AssertionResult operator()(const char* expression, const T& result) const {
    const absl::Status& status = StatusOf(result);
    if (status.ok()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << expression << " is not OK: " << status.ToString();
  }
};
inline constexpr IsOkFormat IsOk;

}  // namespace svcmap::testing

#define SVCMAP_STATUS_CONCAT_INNER_(a, b) a##b
#define SVCMAP_STATUS_CONCAT_(a, b) SVCMAP_STATUS_CONCAT_INNER_(a, b)

#ifndef EXPECT_OK
#define EXPECT_OK(expression) EXPECT_PRED_FORMAT1(::svcmap::testing::IsOk, expression)
#endif
#ifndef ASSERT_OK
#define ASSERT_OK(expression) ASSERT_PRED_FORMAT1(::svcmap::testing::IsOk, expression)
#endif

#define ASSERT_OK_AND_ASSIGN(lhs, expression) \
  SVCMAP_ASSERT_OK_AND_ASSIGN_(SVCMAP_STATUS_CONCAT_(status_or_, __LINE__), lhs, expression)

#define SVCMAP_ASSERT_OK_AND_ASSIGN_(result, lhs, expression)         \
  auto result = (expression);                                         \
  ASSERT_TRUE(::svcmap::testing::IsOk(#expression, result.status())); \
  lhs = std::move(result).value()
