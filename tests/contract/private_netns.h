// Creates a network namespace for tests on the real kernel. If the process cannot create
// namespaces, the test fails with the reason. With SVCMAP_ALLOW_NETNS_SKIP=1, the test is skipped
// instead of failing.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "tests/support/netns.h"

namespace svcmap::testing {

// Must be called in SetUp, which must return immediately if `netns` is still empty afterwards.
inline void MakePrivateNetNs(std::optional<NetNs>& netns) {
  absl::StatusOr<NetNs> created = NetNs::Create();
  if (created.ok()) {
    netns = *std::move(created);
    return;
  }
  const char* allow = std::getenv("SVCMAP_ALLOW_NETNS_SKIP");
  if (allow != nullptr && std::string_view(allow) == "1") {
    GTEST_SKIP() << "no network namespaces: " << created.status().ToString();
  }
  FAIL() << "tests on the real kernel need network namespaces (root): "
         << created.status().ToString() << "\nSet SVCMAP_ALLOW_NETNS_SKIP=1 to skip them.";
}

}  // namespace svcmap::testing
