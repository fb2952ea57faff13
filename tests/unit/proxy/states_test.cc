#include "proxy/reconcile/states.h"

#include <gtest/gtest.h>

#include <array>

namespace svcmap::proxy {
namespace {

constexpr std::array kReceived = {Received::kNothing, Received::kPartial, Received::kPreviousRules,
                                  Received::kStored, Received::kComplete};
constexpr std::array kInputs = {Input::kChange, Input::kSnapshotBegin, Input::kSnapshotEnd,
                                Input::kTokenMatches};

// If received knowledge could shrink, a controller that disconnects would delete Services.
TEST(StatesTest, APartOfTheFirstSnapshotIsNoCompleteState) {
  EXPECT_EQ(Next(Received::kPartial, Input::kChange), Received::kPartial);
}

TEST(StatesTest, NoInputReducesWhatWasReceived) {
  for (const Received from : kReceived) {
    for (const Input input : kInputs) EXPECT_GE(Next(from, input), from);
  }
}

TEST(StatesTest, OnlyACompleteStateReplacesThePreviousRules) {
  for (const Input input : kInputs) {
    const Received next = Next(Received::kPreviousRules, input);
    EXPECT_EQ(next != Received::kPreviousRules, input == Input::kSnapshotEnd);
  }
}

TEST(StatesTest, ThePhaseIsTheFirstThatMatches) {
  struct Case {
    Situation situation;
    Phase phase;
  };
  const Situation serving = {.received = Received::kComplete,
                             .programmed = Received::kComplete,
                             .tables = TableState::kCurrent};
  const auto with = [&](auto change) {
    Situation situation = serving;
    change(situation);
    return situation;
  };
  const Case cases[] = {
      {serving, Phase::kServing},
      {with([](Situation& s) { s.programmed = Received::kStored; }), Phase::kServing},
      {with([](Situation& s) { s.programmed = Received::kNothing; }), Phase::kLoading},
      {with([](Situation& s) { s.received = s.programmed = Received::kNothing; }), Phase::kWaiting},
      {with([](Situation& s) { s.suspects = true; }), Phase::kRepairing},
      {with([](Situation& s) { s.tables = TableState::kUnverified; }), Phase::kRewriting},
      {with([](Situation& s) {
         s.received = s.programmed = Received::kNothing;
         s.tables = TableState::kUnverified;
       }),
       Phase::kWaiting},
      {with([](Situation& s) {
         s.tables = TableState::kUnverified;
         s.suspects = true;
       }),
       Phase::kRewriting},
      {with([](Situation& s) {
         s.commit_failed = true;
         s.tables = TableState::kUnverified;
       }),
       Phase::kRetrying},
      {with([](Situation& s) {
         s.received = Received::kPreviousRules;
         s.commit_failed = true;
       }),
       Phase::kHolding},
  };
  for (const Case& c : cases) EXPECT_EQ(PhaseOf(c.situation), c.phase);
}

}  // namespace
}  // namespace svcmap::proxy
