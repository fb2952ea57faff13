// Fixture for the saved state tests. The fixture contains an agent with programmed and saved
// Services, and clients of these Services.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "tests/recovery/recovery_world.h"

namespace svcmap::testing {

inline const Address kLate = ClusterIp(20);  // Address of a Service that a test adds later.

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

class SavedStateTest : public RecoveryTest {
 protected:
  // Values that show whether a process has written to the tables.
  struct KernelState {
    uint32_t generation = 0;
    ElementLists markers;
    friend bool operator==(const KernelState&, const KernelState&) = default;
    friend std::ostream& operator<<(std::ostream& out, const KernelState& state) {
      out << "generation " << state.generation;
      for (const auto& [set, elements] : state.markers) out << ", " << *elements.begin();
      return out;
    }
  };

  void SetUp() override;
  void TearDown() override;

  static Objects Everything();  // Returns all objects that the fixture sends to the agent.

  void StartTraffic();
  // Expects that no request has failed since StartTraffic, and that traffic continues.
  void ExpectNoInterruption();

  KernelState ReadKernelState();
  // Waits until the state file contains the current generation id of the kernel. The next agent
  // then uses the tables without comparing them.
  absl::Status WaitUntilGenerationIsSaved();

  // Adds a Service and expects that its endpoint answers.
  void ExpectItGoesOn();

 private:
  std::unique_ptr<SteadyTraffic> traffic_;
};

}  // namespace svcmap::testing
