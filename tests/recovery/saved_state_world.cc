#include "tests/recovery/saved_state_world.h"

namespace svcmap::testing {
namespace {

constexpr int kSavedOthers = 60;
constexpr int kSavedEndpoints = 5;

}  // namespace

void SavedStateTest::SetUp() {
  RecoveryTest::SetUp();
  if (HasFatalFailure()) return;
  ASSERT_OK(agent().Replace(Everything()));
  RememberRules();
}

void SavedStateTest::TearDown() {
  traffic_.reset();  // Stop the traffic before the tables are deleted.
  RecoveryTest::TearDown();
}

Objects SavedStateTest::Everything() {
  return Basics() + SteadyServices(*world()) + OtherServices(kSavedOthers, kSavedEndpoints);
}

void SavedStateTest::StartTraffic() {
  ASSERT_OK_AND_ASSIGN(traffic_, SteadyTraffic::Start(client().netns(), SteadyTargets(*world())));
}

void SavedStateTest::ExpectNoInterruption() {
  EXPECT_OK(traffic_->Go(40));
  EXPECT_OK(traffic_->Report().Check()) << agent().log();
}

ElementLists SavedStateTest::ReadMarkers() {
  ElementLists markers;
  const absl::StatusOr<Listing> listing = ReadListing(node().netns());
  EXPECT_OK(listing);
  if (!listing.ok()) return markers;
  for (const auto& [set, elements] : listing->elements) {
    if (set.ends_with(" marker")) markers[set] = elements;
  }
  EXPECT_EQ(markers.size(), 2u);
  return markers;
}

void SavedStateTest::ExpectItGoesOn() {
  ASSERT_OK(agent().Apply(Objects{Web("shop/late", kLate)} + WebSlices("shop/late", {&pod_b()})));
  for (const bool v6 : {false, true}) {
    EXPECT_ANSWERED_BY(Ask(pod_a().netns(), {.destination = kLate.in(v6), .port = 80}), "pod-b",
                       pod_a().address(v6));
  }
  EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
}

}  // namespace svcmap::testing
