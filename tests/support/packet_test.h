// Base fixture of tests that send packets. These tests need network namespaces and fail with the
// reason if the process cannot create them. With SVCMAP_ALLOW_NETNS_SKIP=1, the tests are skipped
// instead of failing.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tests/support/netns.h"
#include "tests/support/topology.h"

namespace svcmap::testing {

// Each test has a separate `topology_`, without pods. The SetUp of a derived fixture calls this
// SetUp and returns immediately if `topology_` is null.
class PacketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status available = NetNsAvailable(); !available.ok()) {
      const char* allow = std::getenv("SVCMAP_ALLOW_NETNS_SKIP");
      if (allow != nullptr && std::string(allow) == "1") {
        GTEST_SKIP() << "no network namespaces: " << available.ToString();
      }
      FAIL() << "packet tests need network namespaces (root): " << available.ToString()
             << "\nSet SVCMAP_ALLOW_NETNS_SKIP=1 to skip them.";
    }
    absl::StatusOr<std::unique_ptr<Topology>> topology = Topology::Create();
    ASSERT_TRUE(topology.ok()) << topology.status().ToString();
    topology_ = *std::move(topology);
  }

  std::unique_ptr<Topology> topology_;
};

}  // namespace svcmap::testing
