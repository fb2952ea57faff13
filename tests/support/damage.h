// What others do to our tables, deliberately or not: the kinds of damage that tests and benchmarks
// let an agent repair.
//
// Damage is aimed at a Service with the addresses kVictim, TCP and UDP port 80; kOtherService is
// one with other endpoints.
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
  std::string name;  // "FlushedRuleset"
  bool interrupts =
      false;  // New connections to the victim fail, or go elsewhere, until it is repaired.
  bool keeps_tables = true;  // And so the clients' affinity records.
  // The nft script, made for the rules and elements that `netns` has now.
  absl::StatusOr<std::string> (*script)(const NetNs& netns);
};

inline std::ostream& operator<<(std::ostream& out, const Damage& damage) {
  return out << damage.name;
}

const std::vector<Damage>& AllDamage();

// The one of that name; null if there is none.
const Damage* FindDamage(const std::string& name);

}  // namespace svcmap::testing
