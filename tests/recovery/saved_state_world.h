// What the tests of the saved state share: an agent that has told the kernel and its state folder
// of some Services, and clients that use them.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "tests/recovery/recovery_world.h"

namespace svcmap::testing {

inline const Address kLate = ClusterIp(20);  // Of a Service that comes late.

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

class SavedStateTest : public RecoveryTest {
 protected:
  // What tells whether somebody has written.
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

  static Objects Everything();  // That the agent was told.

  void StartTraffic();
  // Nothing has failed since StartTraffic, and it goes on.
  void ExpectNobodyNoticed();

  KernelState ReadKernelState();

  // What the agent is told now is in the kernel, and served.
  void ExpectItGoesOn();

 private:
  std::unique_ptr<SteadyTraffic> traffic_;
};

}  // namespace svcmap::testing
