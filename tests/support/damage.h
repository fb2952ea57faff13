// Kinds of damage by other processes that an agent must repair, for tests and benchmarks.
//
// Damage affects the Service with the addresses kVictim, on TCP and UDP port 80. The Service
// kOtherService has different endpoints.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

inline constexpr char kVictim[] = "10.96.0.10";
inline constexpr char kOtherService[] = "10.96.0.11";

struct Damage {
  std::string name;  // Name of the damage, for example "FlushedRuleset".
  bool interrupts =
      // True if new connections to the victim fail or reach wrong endpoints until the repair.
      false;
  bool keeps_tables = true;  // True if affinity records survive the repair.
  // Returns the nft script that damages the current rules and elements in `netns`.
  absl::StatusOr<std::string> (*script)(const NetNs& netns);
};

inline std::ostream& operator<<(std::ostream& out, const Damage& damage) {
  return out << damage.name;
}

const std::vector<Damage>& AllDamage();

// Returns the damage with this name, or null if no such damage exists.
const Damage* FindDamage(const std::string& name);

}  // namespace svcmap::testing
