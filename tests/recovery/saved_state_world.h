// Fixture for the saved state tests. The fixture contains an agent with programmed and saved
// Services, and clients of these Services.
#pragma once

#include <memory>
#include <string>

#include "tests/recovery/recovery_world.h"
#include "tests/support/file.h"

namespace svcmap::testing {

inline const Address kLate = ClusterIp(20);  // Address of a Service that a test adds later.

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
