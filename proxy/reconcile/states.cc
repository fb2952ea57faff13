#include "proxy/reconcile/states.h"

namespace svcmap::proxy {

Received Next(Received state, Input input) {
  switch (input) {
    case Input::kChange:  // After a part of a snapshot, changes do not make the state complete.
      return state == Received::kNothing ? Received::kStored : state;
    case Input::kSnapshotBegin:
      return state == Received::kNothing ? Received::kPartial : state;
    case Input::kSnapshotEnd:
      return Received::kComplete;
    case Input::kTokenMatches:
      return state == Received::kPreviousRules ? state : Received::kComplete;
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
