// The states of the agent and their transitions. proxy/README.md contains the diagram.
//
// Two independent facts determine what the agent does: how much of the desired state it has
// received, and how the next commit must write the tables. Each fact is a state machine with a
// table of transitions. PhaseOf() derives the phase, which status and metrics report.
#pragma once

#include <array>
#include <cstdint>

namespace svcmap::proxy {

// How much of the desired state this run has received, in increasing order.
enum class Received : uint8_t {
  kNothing,  // No object, and no table with a marker of a previous run. Empty tables are created.
  kPartial,  // A part of the first snapshot, in this run or in a previous one.
  // No complete state. The rules of the previous run stay in effect, and nothing is written to the
  // kernel.
  kPreviousRules,
  kStored,    // Objects from the saved state, or changes without a complete state.
  kComplete,  // In this run, a controller has sent a snapshot or offered the matching state token.
};

enum class Input : uint8_t {
  kChange,         // A change was received outside of a snapshot.
  kSnapshotBegin,  // A controller starts to send the complete state.
  kSnapshotEnd,    // A controller has sent the complete state.
  kTokenMatches,   // The token that a controller offers matches the stored state.
};

// State that a run finds at its start.
enum class AdoptedState : uint8_t {
  kNothing,  // No table with a marker, and no saved objects.
  kUnknown,  // Tables, but no saved objects that match them: either none, or older objects.
  kSaved,    // Saved objects that match the tables, or saved objects without tables.
};

// Returns the first state of a run. `partial` is true if a previous run ended before it received a
// complete state. `has_objects` is true if objects are saved.
constexpr Received ReceivedAtStart(AdoptedState adopted, bool partial, bool has_objects) {
  if (adopted == AdoptedState::kNothing) return Received::kNothing;
  if (adopted == AdoptedState::kUnknown) return Received::kPreviousRules;
  if (!partial) return Received::kStored;
  return has_objects ? Received::kPartial : Received::kNothing;
}

struct ReceivedTransition {
  Received from;
  Input input;
  Received to;
};

// All other combinations do not change the state.
inline constexpr std::array<ReceivedTransition, 9> kReceivedTransitions = {{
    {Received::kNothing, Input::kChange, Received::kStored},
    {Received::kNothing, Input::kSnapshotBegin, Received::kPartial},
    {Received::kNothing, Input::kSnapshotEnd, Received::kComplete},
    {Received::kNothing, Input::kTokenMatches, Received::kComplete},
    // After a part of a snapshot, other changes do not make the state complete.
    {Received::kPartial, Input::kSnapshotEnd, Received::kComplete},
    {Received::kPartial, Input::kTokenMatches, Received::kComplete},
    // A change cannot replace the previous rules, because the other Services are unknown. A
    // controller's token cannot match, because the agent has no token to compare it with.
    {Received::kPreviousRules, Input::kSnapshotEnd, Received::kComplete},
    {Received::kStored, Input::kSnapshotEnd, Received::kComplete},
    {Received::kStored, Input::kTokenMatches, Received::kComplete},
}};

// Whether the tables are known to contain the applied rows. This determines how the next commit
// writes the tables.
enum class TableState : uint8_t {
  // The tables contain the applied rows, except for rows that are suspect or left over. A commit
  // writes only differences between applied and desired rows.
  kCurrent,
  // The tables may differ from the applied rows. The next commit creates missing tables, reads the
  // existing tables and writes the differences. If the tables cannot be compared, their content is
  // replaced, except for clients' affinity records.
  kUnverified,
  // Writing the differences has failed. The next commit replaces the tables' content, including
  // affinity records.
  kReplacing,
};

enum class TableEvent : uint8_t {
  kRewritten,      // A rewrite was committed.
  kRewriteFailed,  // A rewrite was rejected, or its outcome is unknown.
  // The outcome of a commit is unknown, a table is missing or damaged, a check has found more
  // differences than a repair writes, or commits or repairs were rejected repeatedly.
  kSuspected,
};

struct TableTransition {
  TableState from;
  TableEvent event;
  TableState to;
};

// All other combinations do not change the state.
inline constexpr std::array<TableTransition, 4> kTableTransitions = {{
    {TableState::kCurrent, TableEvent::kSuspected, TableState::kUnverified},
    {TableState::kUnverified, TableEvent::kRewritten, TableState::kCurrent},
    {TableState::kUnverified, TableEvent::kRewriteFailed, TableState::kReplacing},
    {TableState::kReplacing, TableEvent::kRewritten, TableState::kCurrent},
}};

Received Next(Received state, Input input);
TableState Next(TableState state, TableEvent event);

// The agent's current activity.
enum class Phase : uint8_t {
  kHolding,    // Keeps the previous run's rules in effect until it receives a complete state.
  kRetrying,   // Retries a commit that has failed.
  kWaiting,    // Has received nothing, or only a part of its first snapshot.
  kRewriting,  // Reads the tables and writes the differences, or replaces their content.
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
  bool commit_failed = false;  // The last commit has failed.
  bool suspects = false;       // Rows are suspect.
};

// Returns the first phase in the order of the enumeration that matches the situation.
Phase PhaseOf(const Situation& situation);

}  // namespace svcmap::proxy
