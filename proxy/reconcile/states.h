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
  // No complete state. The rules of the previous run stay in effect, and nothing is written.
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

// What a run finds at its start.
enum class AdoptedState : uint8_t {
  kNothing,  // No table with a marker, and no saved objects.
  kUnknown,  // Tables, and no saved objects, or objects that are older than the tables.
  kSaved,    // Saved objects that belong to the tables, or no tables.
};

// The first state of a run. `partial`: a previous run ended before it received a complete state.
// `has_objects`: objects are saved.
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

// What is known about the content of the tables, and thus how the next commit writes them.
enum class TableState : uint8_t {
  // The tables contain the applied rows, except for rows that are suspect or left over. A commit
  // writes only differences between applied and desired rows.
  kCurrent,
  // The tables exist, but may differ from the applied rows. The next commit reads them and writes
  // what differs. If the tables cannot be compared, their content is replaced, except for clients'
  // affinity records.
  kDiffering,
  // A table of this run was deleted. The applied rows of the missing tables are written again. If
  // one table still exists, or if this fails, the same rewrite continues as for kUnknown.
  kMissing,
  // As kDiffering, but affinity records are deleted, too, and missing tables are created.
  kUnknown,
  kReplacing,  // Writing the differences has failed. The next commit replaces the tables' content.
  // The kernel rejects commits again and again, because other processes change the tables. The next
  // commit replaces the content except for affinity records, without reading the tables.
  kContested,
  // The next commit deletes the tables, including affinity records, and creates them again.
  kDropping,
};

enum class TableEvent : uint8_t {
  kRewritten,       // A rewrite was committed.
  kRewriteFailed,   // A rewrite was rejected, or its outcome is unknown.
  kOutcomeUnknown,  // The marker does not show whether a commit of changes took place.
  kSetFull,         // A set has reached its maximum size.
  kRejected,        // Repeated commits were rejected although the rows were checked.
  // A check has found more differences than a repair writes, or the kernel has rejected the repair
  // of ranges with start and end elements.
  kMuchDamage,
  kTableMissing,   // A check has found no table.
  kTablesDamaged,  // A check has found no set, or sets with another type.
  kRepairsFailed,  // Repeated repairs were rejected.
};

struct TableTransition {
  TableState from;
  TableEvent event;
  TableState to;
};

// All other combinations do not change the state.
inline constexpr std::array<TableTransition, 17> kTableTransitions = {{
    {TableState::kCurrent, TableEvent::kOutcomeUnknown, TableState::kDiffering},
    {TableState::kCurrent, TableEvent::kSetFull, TableState::kDiffering},
    {TableState::kCurrent, TableEvent::kRejected, TableState::kContested},
    {TableState::kCurrent, TableEvent::kMuchDamage, TableState::kDiffering},
    {TableState::kCurrent, TableEvent::kTableMissing, TableState::kMissing},
    {TableState::kCurrent, TableEvent::kTablesDamaged, TableState::kUnknown},
    {TableState::kCurrent, TableEvent::kRepairsFailed, TableState::kUnknown},
    {TableState::kDiffering, TableEvent::kRewritten, TableState::kCurrent},
    {TableState::kDiffering, TableEvent::kRewriteFailed, TableState::kReplacing},
    {TableState::kMissing, TableEvent::kRewritten, TableState::kCurrent},
    {TableState::kMissing, TableEvent::kRewriteFailed, TableState::kReplacing},
    {TableState::kUnknown, TableEvent::kRewritten, TableState::kCurrent},
    {TableState::kUnknown, TableEvent::kRewriteFailed, TableState::kReplacing},
    {TableState::kReplacing, TableEvent::kRewritten, TableState::kCurrent},
    {TableState::kContested, TableEvent::kRewritten, TableState::kCurrent},
    {TableState::kContested, TableEvent::kRewriteFailed, TableState::kDropping},
    {TableState::kDropping, TableEvent::kRewritten, TableState::kCurrent},
}};

Received Next(Received state, Input input);
TableState Next(TableState state, TableEvent event);

// How a rewrite writes the tables.
constexpr bool ComparesTables(TableState state) {
  return state == TableState::kDiffering || state == TableState::kMissing ||
         state == TableState::kUnknown;
}
constexpr bool ReadsTables(TableState state) {
  return ComparesTables(state) || state == TableState::kReplacing;
}
constexpr bool KeepsRecords(TableState state) {
  return state == TableState::kDiffering || state == TableState::kContested;
}

// What the agent does.
enum class Phase : uint8_t {
  kHolding,    // Keeps the previous run's rules in effect until it receives a complete state.
  kRetrying,   // Retries a commit that has failed.
  kWaiting,    // Has received nothing, or only a part of its first snapshot.
  kRewriting,  // Reads the tables and writes what differs, or replaces their content.
  kRepairing,  // Checks and repairs rows that another process may have changed.
  kLoading,    // Writes the stored state, which was not completely in the kernel yet, in this run.
  kServing,    // The stored state was completely in the kernel. Commits changes.
};

struct Situation {
  Received received = Received::kNothing;
  // The value of `received` when all stored objects were last in the kernel, in this run.
  Received programmed = Received::kNothing;
  TableState tables = TableState::kUnknown;
  bool commit_failed = false;  // The last commit has failed.
  bool suspects = false;       // Rows are suspect.
};

// The first matching phase, in the order of the enumeration.
Phase PhaseOf(const Situation& situation);

}  // namespace svcmap::proxy
