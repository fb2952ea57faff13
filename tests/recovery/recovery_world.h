// Fixture for the recovery tests. The fixture contains an agent with a persistent state directory,
// some Services with continuous traffic, and hundreds of other Services. The fixture also checks
// the recovered state.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/netns/service_world.h"
#include "tests/support/environment.h"
#include "tests/support/file.h"
#include "tests/support/kernel_check.h"
#include "tests/support/steady_traffic.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::testing {

// Returns Services "steady/..." whose endpoints answer: some Services with one address each, a
// Service with external addresses and a nodePort, and a Service with session affinity.
Objects SteadyServices(const World& world);
inline const Address kSteady = ClusterIp(10);
inline const Address kSticky = ClusterIp(13);

// Returns options for traffic from the client to all steady Services.
TrafficOptions SteadyTargets(const World& world);

// Services "other/s0", "other/s1" ... have no traffic. Each Service has `endpoints` endpoints,
// including at most two IPv6 endpoints.
Address OtherIp(int service);
v1::Object OtherService(int service, int port = 80);
Objects OtherSlices(int service, int endpoints);
Objects OtherServices(int services, int endpoints);

// Fixture in which each test starts with empty tables and an empty state directory.
class RecoveryTest : public ServiceTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string state_folder() const { return folder_->path() + "/state"; }
  // Returns the flags of an agent that uses the state directory.
  std::vector<std::string> Flags(std::vector<std::string> more = {}) const;

  absl::Status StartAgent(const std::vector<std::string>& more_flags = {});
  absl::Status EndAgent(bool kill);

  // Waits until the agent reports the received or saved state as serving and reports no error.
  absl::Status WaitUntilServing();

  // Waits until the kernel has the desired elements, and the same rules as at the last
  // RememberRules call.
  absl::Status WaitUntilTheKernelIsAsWanted();
  void RememberRules();

  // Returns the endpoint that each client of the Service with session affinity reaches.
  std::vector<std::string> StickyPlacement();

  const std::string& rules() const { return rules_; }

 private:
  std::optional<TemporaryFolder> folder_;
  std::string rules_;
};

inline const Address kLate = ClusterIp(20);  // Address of a Service that a test adds later.

// Fixture for the saved state tests. The fixture contains an agent with programmed and saved
// Services, and clients of these Services.
class SavedStateTest : public RecoveryTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  static Objects Everything();  // Returns all objects that the fixture sends to the agent.

  void StartTraffic();
  // Expects that no request has failed since StartTraffic, and that traffic continues.
  void ExpectNoInterruption();

  // Each commit of an agent changes the markers.
  ElementLists ReadMarkers();

  // Adds a Service and expects that its endpoint answers.
  void ExpectItGoesOn();

 private:
  std::unique_ptr<SteadyTraffic> traffic_;
};

}  // namespace svcmap::testing
