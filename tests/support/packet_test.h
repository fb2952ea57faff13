// Base fixture of tests that send packets: they need network namespaces, so they fail, saying why,
// where those cannot be made. Only SVCMAP_ALLOW_NETNS_SKIP=1 turns that into a skip.
#ifndef SVCMAP_TESTS_SUPPORT_PACKET_TEST_H_
#define SVCMAP_TESTS_SUPPORT_PACKET_TEST_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tests/support/netns.h"
#include "tests/support/topology.h"

namespace svcmap::testing {

// Each test gets a `topology_` of its own, without pods. A derived SetUp calls this one and returns
// at once if `topology_` is still null.
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

#endif  // SVCMAP_TESTS_SUPPORT_PACKET_TEST_H_
