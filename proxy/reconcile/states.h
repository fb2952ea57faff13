// The states of the agent. proxy/README.md describes their transitions.
//
// Two independent facts determine what the agent does: how much of the desired state it has
// received, and how the next commit must write the tables. PhaseOf() derives the phase, which
// status and metrics report.
#pragma once

#include <cstdint>

namespace svcmap::proxy {

// How much of the desired state this run has received, in increasing order.
enum class Received : uint8_t {
  kNothing,  // No object, and no table with Services of a previous run. Empty tables are created.
  kPartial,  // A part of the first snapshot, in this run or in a previous one.
  // No complete state. The rules of the previous run stay in effect, and nothing is written to the
  // kernel.
  kPreviousRules,
  kStored,    // Objects from the saved state, or changes without a complete state.
  kComplete,  // In this run, a controller has sent a snapshot or offered the matching state token.
};

// Whether the tables are known to contain the applied rows. This determines how the next commit
// writes the tables.
enum class TableState : uint8_t {
  // The tables contain the applied rows, except for rows that are suspect or left over. A commit
  // writes only differences between applied and desired rows.
  kCurrent,
  // The tables may differ from the applied rows. The next commit creates missing tables, reads the
  // existing tables and writes the differences.
  kUnverified,
  // Reading the tables or writing the differences has failed repeatedly. The next commit deletes
  // both tables and creates them again, which loses affinity records.
  kReplacing,
};

// The agent's current activity.
enum class Phase : uint8_t {
  kHolding,    // Keeps the previous run's rules in effect until it receives a complete state.
  kRetrying,   // Retries a plan that has failed.
  kWaiting,    // Has received nothing, or only a part of its first snapshot.
  kRewriting,  // Reads the tables and writes the differences, or replaces the tables.
  kRepairing,  // Checks and repairs rows that another process may have changed.
  kLoading,    // Writes the stored state, which was never completely in the kernel in this run.
  kServing,    // Commits changes. The stored state was completely in the kernel in this run.
};

struct Situation {
  Received received = Received::kNothing;
  // Value of `received` at the last time in this run at which all stored objects were in the
  // kernel.
  Received programmed = Received::kNothing;
  TableState tables = TableState::kUnverified;
  bool plan_failed = false;  // The last plan has failed.
  bool suspects = false;     // Rows are suspect.
};

// Returns the first phase in the order of the enumeration that matches the situation.
constexpr Phase PhaseOf(const Situation& situation) {
  if (situation.received == Received::kPreviousRules) return Phase::kHolding;
  if (situation.plan_failed) return Phase::kRetrying;
  if (situation.received <= Received::kPartial) return Phase::kWaiting;
  if (situation.tables != TableState::kCurrent) return Phase::kRewriting;
  if (situation.suspects) return Phase::kRepairing;
  if (situation.programmed < Received::kStored) return Phase::kLoading;
  return Phase::kServing;
}

}  // namespace svcmap::proxy
