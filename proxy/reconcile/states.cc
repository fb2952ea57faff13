#include "proxy/reconcile/states.h"

namespace svcmap::proxy {

Received Next(Received state, Input input) {
  for (const ReceivedTransition& transition : kReceivedTransitions) {
    if (transition.from == state && transition.input == input) return transition.to;
  }
  return state;
}

TableState Next(TableState state, TableEvent event) {
  for (const TableTransition& transition : kTableTransitions) {
    if (transition.from == state && transition.event == event) return transition.to;
  }
  return state;
}

Phase PhaseOf(const Situation& situation) {
  if (situation.received == Received::kPreviousRules) return Phase::kHolding;
  if (situation.commit_failed) return Phase::kRetrying;
  if (situation.received <= Received::kPartial) return Phase::kWaiting;
  if (situation.tables != TableState::kCurrent) return Phase::kRewriting;
  if (situation.suspects) return Phase::kRepairing;
  if (situation.programmed < Received::kStored) return Phase::kLoading;
  return Phase::kServing;
}

}  // namespace svcmap::proxy
