// Services with so many endpoints that several plans add them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/reconciler_saved_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PortionsTest : public SavedTest {
 protected:
  PortionsTest() { options_.portion = 4; }

  size_t CountOf(SetIndex set) {
    const auto elements = kernel_.ReadSet({Family::kIpv4, set});
    EXPECT_OK(elements);
    return elements->size();
  }
  // Writes all plans. Returns the numbers of endpoints and of Service addresses after each plan.
  std::vector<std::vector<size_t>> SyncAll() {
    std::vector<std::vector<size_t>> counts;
    while (reconciler_->Pending()) {
      EXPECT_NE(Sync().outcome, Outcome::kFailed);
      counts.push_back({CountOf(kEndpoints), CountOf(kServiceIps)});
    }
    ExpectConverged();
    return counts;
  }
  // Programs a Service with 10 endpoints and session affinity, whose endpoints are in other sets.
  // After the end of the affinity, all endpoints are in a new group.
  void BeginWithAffinity() {
    Begin();
    Notify({Web().Affinity(90), Slice("shop/web", 10)});
    EXPECT_THAT(SyncAll(), SizeIs(1));
    Note();
  }
};

TEST_F(PortionsTest, ANewServiceGetsItsAddressAfterAllEndpoints) {
  Begin();
  Sync();
  Notify({Web(), Slice("shop/web", 10)});
  EXPECT_THAT(SyncAll(), ElementsAre(ElementsAre(4, 0), ElementsAre(8, 0), ElementsAre(10, 1)));
}

TEST_F(PortionsTest, ThePreviousEndpointsStayUntilAllNewOnesAreThere) {
  BeginWithAffinity();
  const size_t sticky = CountOf(kAffinitySlots);
  Notify({Web()});
  Sync();
  Sync();
  EXPECT_EQ(CountOf(kEndpoints), 8u);
  EXPECT_EQ(CountOf(kAffinitySlots), sticky);
  EXPECT_THAT(SyncAll(), ElementsAre(ElementsAre(10, 1)));
  EXPECT_EQ(CountOf(kAffinitySlots), 0u);
}

TEST_F(PortionsTest, PlansForOtherServicesComeBetween) {
  Begin();
  Sync();
  Notify({Web(), Slice("shop/web", 16)});
  Sync();
  std::vector<size_t> addresses;
  for (int i = 1; i <= 3; ++i) {
    const std::string key = "shop/other-" + std::to_string(i);
    Notify({AService(key).At("10.96.1." + std::to_string(i)).Port(80), Slice(key, 1, 1 + i)});
    Sync();
    Sync();
    addresses.push_back(CountOf(kServiceIps));
  }
  EXPECT_THAT(addresses, ElementsAre(1, 2, 4)) << "the large Service comes with the third one";
  EXPECT_FALSE(reconciler_->Pending());
  ExpectConverged();
}

TEST_F(PortionsTest, ARewriteAddsEverythingAtOnce) {
  Begin();
  Notify({Web(), Slice("shop/web", 10)});
  EXPECT_THAT(SyncAll(), ElementsAre(ElementsAre(10, 1)));
  Notify({AService("shop/b").At("10.96.0.2").Port(80), Slice("shop/b", 10, 2)});
  Sync();
  reconciler_->Invalidate();
  EXPECT_THAT(SyncAll(), ElementsAre(ElementsAre(20, 2)));
}

TEST_F(PortionsTest, ServicesThatExchangeAnAddressAreChangedAtOnce) {
  Begin();
  Notify({AService("shop/a").At("10.96.0.2").Port(80)});
  SyncAll();
  Notify({NoService("shop/a"), Web().At("10.96.0.2"), Slice("shop/web", 10)});
  EXPECT_THAT(SyncAll(), ElementsAre(ElementsAre(10, 1)));
}

TEST_F(PortionsTest, TheNextRunContinues) {
  BeginWithAffinity();
  Notify({Web()});
  Sync();
  Note();
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_EQ(CountOf(kEndpoints), 4u);
  EXPECT_THAT(SyncAll(), ElementsAre(ElementsAre(8, 1), ElementsAre(10, 1)));
  size_t added = 0;
  for (const nft::Transaction& transaction : sent_) {
    transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
      if (element.set.set == kEndpoints && verb == nft::Verb::kAdd) ++added;
    });
  }
  EXPECT_EQ(added, 6u);
}

TEST_F(PortionsTest, AServiceCanChangeBetweenPortions) {
  const std::vector<Change> changes[] = {
      {Slice("shop/web", 11)},     // Continues.
      {Slice("shop/web", 10, 7)},  // All endpoints differ.
      {Slice("shop/web", 2)},      // Fewer endpoints than are staged.
      {NoSlice("shop/web-1")},     //
      {NoService("shop/web")},     //
      {Web().Affinity(60)},        // The staged sets are not needed.
      {Web().Port(81, "more")},    //
      {Web().InternalLocal(), ANode("n1", {"192.0.2.1"})},
  };
  for (const std::vector<Change>& change : changes) {
    for (const int portions : {1, 2}) {
      SCOPED_TRACE(portions);
      BeginWithAffinity();
      Notify({Web()});
      for (int i = 0; i < portions; ++i) Sync();
      Notify(change);
      SyncAll();
      Notify({NoService("shop/web"), NoSlice("shop/web-1"), Removal(Kind::kNode, "n1")});
      SyncAll();
      EXPECT_EQ(CountOf(kEndpoints), 0u);
    }
  }
}

TEST_F(PortionsTest, ARejectedPortionIsRepeated) {
  Begin();
  Sync();
  Notify({Web(), Slice("shop/web", 10)});
  EXPECT_EQ(Sync(Fault::kReject).outcome, Outcome::kFailed);
  Sync();
  EXPECT_EQ(Sync(Fault::kReject).outcome, Outcome::kFailed);
  EXPECT_EQ(Sync(Fault::kUnknownCommitted).outcome, Outcome::kCommitted);
  EXPECT_THAT(SyncAll(), ElementsAre(ElementsAre(10, 1)));
}

TEST_F(PortionsTest, StagedEndpointsAreNoServicePorts) {
  Begin();
  Sync();
  Notify({Web(), Slice("shop/web", 10)});
  const SyncResult result = Sync();
  EXPECT_EQ(reconciler_->applied().service_ports(), 0u);
  EXPECT_THAT(result.udp, IsEmpty()) << "nothing is announced before the last plan";
  SyncAll();
  EXPECT_EQ(reconciler_->applied().service_ports(), 1u);
}

}  // namespace
}  // namespace svcmap::proxy::test
