#include "proxy/diff/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/diff/leftovers.h"
#include "proxy/diff/plan.h"
#include "proxy/ruleset/descriptor.h"
#include "tests/contract/rows.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy::test {
namespace {

using ::svcmap::testing::Changes;
using ::svcmap::testing::ClusterIpRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

svcmap::testing::Row Slot(uint32_t group, uint32_t slot, const char* endpoint = "10.0.0.1") {
  return svcmap::testing::EndpointRow(group, slot, svcmap::testing::Ip(endpoint), 8080);
}
svcmap::testing::Row ServiceIp(const char* descriptor) {
  return svcmap::testing::ServiceRow(svcmap::testing::Ip("10.96.0.1"), 80,
                                     svcmap::testing::Ip(descriptor));
}

// Return one phase. The change stays in `transaction`.
nft::Transaction Removals(nft::Transaction& transaction, const PhaseContext& context = {}) {
  Phases phases = SplitIntoPhases(std::move(transaction), context);
  transaction = std::move(phases.change);
  return std::move(phases.removals);
}
nft::Transaction First(nft::Transaction& transaction, const PhaseContext& context = {}) {
  Phases phases = SplitIntoPhases(std::move(transaction), context);
  transaction = std::move(phases.change);
  nft::Transaction first;
  for (FirstPhase& phase : phases.first) first.AddElements(std::move(phase.rows));
  return first;
}

// Packets that have picked the endpoint need the row in a later chain.
TEST(RemovalsTest, ASelfEndpointIsDeletedAfterTheSwitch) {
  const svcmap::testing::Row self{
      .set = {Family::kIpv4, kSelfEndpoints},
      .key = nft::FieldBytes().Append(svcmap::testing::Ip("10.96.0.1").bytes()).AppendU8(6)};
  nft::Transaction transaction = Changes({self, ServiceIp("2.0.0.1")}, {ServiceIp("1.0.0.1")});
  EXPECT_EQ(Removals(transaction).element_count(), 1u);
  EXPECT_EQ(transaction.element_count(), 2u);
}

svcmap::testing::Row Reject(const char* address, SetIndex set = kNoEndpointServices) {
  return {.set = {Family::kIpv4, set},
          .key = ServiceIpKey(svcmap::testing::Ip(address), Protocol::kTcp, 80)};
}

// Packets to the address of their own endpoint reach the reject after the switch, too.
TEST(RemovalsTest, ARejectOfAnEndpointsOwnAddressIsPartOfTheSwitch) {
  nft::Transaction transaction = Changes({Reject("10.96.0.1"), Reject("10.96.0.2")},
                                         {Slot(1, 0, "10.96.0.1"), ServiceIp("1.0.0.1")});
  EXPECT_THAT(Operations(Removals(transaction)),
              ElementsAre("- no-endpoint-services 10.96.0.2 . tcp . 80"));
}

TEST(PhasesTest, ReplacedKeysAreDeletedImmediatelyBeforeTheirAddition) {
  nft::Transaction transaction =
      Changes({Slot(1, 0), Slot(9, 1), svcmap::testing::SourceRow(Family::kIpv4, 1, 0x100, 0x1ff),
               ServiceIp("2.0.0.1")},
              {Slot(2, 0), svcmap::testing::SourceRow(Family::kIpv4, 1, 0x100, 0x17f),
               Slot(1, 0, "10.0.0.2"), ServiceIp("1.0.0.2")});
  EXPECT_THAT(
      Operations(SplitIntoPhases(std::move(transaction), {}).change),
      ElementsAre("+ endpoints 0x2 . 0 : 10.0.0.1 . 8080", "- endpoints 0x1 . 0",
                  "+ endpoints 0x1 . 0 : 10.0.0.2 . 8080", "- service-ips 10.96.0.1 . tcp . 80",
                  "+ service-ips 10.96.0.1 . tcp . 80 : 1.0.0.2", "- endpoints 0x9 . 1",
                  StartsWith("- firewall-sources"), StartsWith("+ firewall-sources")));
}

svcmap::testing::Row RangePort(uint16_t port) {
  return {.set = {Family::kIpv4, kRangePorts},
          .key = ServiceIpKey(svcmap::testing::Ip("10.96.0.1"), Protocol::kTcp, port),
          .data = nft::FieldBytes().Append(svcmap::testing::Ip("2.0.0.1").bytes())};
}
svcmap::testing::Row RangeBlock(uint8_t block) {
  return {.set = {Family::kIpv4, kRangeBlocks},
          .key = RangeBlockKey(svcmap::testing::Ip("10.96.0.1"), Protocol::kTcp, block),
          .data = nft::FieldBytes().Append(svcmap::testing::Ip("2.0.0.1").bytes())};
}
svcmap::testing::Row SinglePort(uint16_t port) {
  return svcmap::testing::ServiceRow(svcmap::testing::Ip("10.96.0.1"), port,
                                     svcmap::testing::Ip("2.0.0.1"));
}

TEST(FirstTest, PortsAreAddedBeforeTheirBlockIsDeleted) {
  nft::Transaction transaction = Changes({RangeBlock(3), RangeBlock(4)},
                                         {RangePort(0x2ff), RangePort(0x300), RangePort(0x3ff),
                                          SinglePort(0x401), SinglePort(0x500), RangeBlock(4)});
  EXPECT_THAT(Operations(First(transaction)),
              ElementsAre("+ range-ports 10.96.0.1 . tcp . 768 : 2.0.0.1",
                          "+ range-ports 10.96.0.1 . tcp . 1023 : 2.0.0.1"));
  EXPECT_EQ(transaction.element_count(), 6u);
}

TEST(FirstTest, ASinglePortIsAddedBeforeItsRangeIsDeleted) {
  nft::Transaction transaction =
      Changes({RangePort(80), RangeBlock(1)}, {SinglePort(80), SinglePort(81), SinglePort(256)});
  EXPECT_THAT(Operations(First(transaction)),
              ElementsAre("+ service-ips 10.96.0.1 . tcp . 80 : 2.0.0.1",
                          "+ service-ips 10.96.0.1 . tcp . 256 : 2.0.0.1"));
}

// A packet that was not found in `service-ips` before the change must not miss the range after it.
TEST(FirstTest, ANewlyRestrictedPortIsAddedAfterItsRestrictionAndBeforeItsRangeIsDeleted) {
  const svcmap::testing::Row restriction{
      .set = {Family::kIpv4, kFirewallIps},
      .key = ServiceIpKey(svcmap::testing::Ip("10.96.0.1"), Protocol::kTcp, 80)};
  svcmap::testing::Row source = restriction;
  source.set.set = kFirewallSources;
  source.key_end = source.key;
  source.key.Append(svcmap::testing::Ip("198.51.100.0").bytes());
  source.key_end.Append(svcmap::testing::Ip("198.51.100.255").bytes());
  nft::Transaction elements = Changes({RangeBlock(0)}, {restriction, source, SinglePort(80)});
  nft::Transaction transaction = elements;
  EXPECT_THAT(Operations(First(transaction)),
              ElementsAre(StartsWith("+ firewall-sources"), StartsWith("+ firewall-ips"),
                          "+ service-ips 10.96.0.1 . tcp . 80 : 2.0.0.1"));
  EXPECT_EQ(transaction.element_count(), 1u);
  // If the change replaces the set of source ranges, the restriction is a part of the change,
  // because permitted packets use the range. A port that no packet could use before is restricted
  // earlier.
  const auto replace = [](const char* set, nft::Transaction& change) {
    change.RepairChains({.family = Family::kIpv4,
                         .spec = std::make_shared<nft::TableSpec>(FullTables()[0]),
                         .remove_sets = {set}});
  };
  transaction = elements;
  replace("firewall-sources", transaction);
  EXPECT_TRUE(First(transaction).empty());
  transaction = Changes({}, {restriction, source, SinglePort(80)});
  replace("firewall-sources", transaction);
  EXPECT_THAT(Operations(First(transaction)), ElementsAre(StartsWith("+ firewall-ips")));
  // The replacement of another set changes nothing.
  transaction = Changes({}, {restriction, source, SinglePort(80)});
  replace("service-cidrs", transaction);
  EXPECT_THAT(Operations(First(transaction)),
              ElementsAre(StartsWith("+ firewall-sources"), StartsWith("+ firewall-ips")));
}

// Row of a load balancer IP whose port ranges have source ranges.
svcmap::testing::Row RangeFirewallIp(const char* address) {
  return {
      .set = {Family::kIpv4, kRangeFirewallIps},
      .key =
          nft::FieldBytes().Append(svcmap::testing::Ip(address).bytes()).AppendU8(6).PadToWord()};
}
svcmap::testing::Row RangeSource(const char* address) {
  svcmap::testing::Row row = RangeFirewallIp(address);
  row.set.set = kRangeFirewallSources;
  row.key_end = row.key;
  row.key.Append(svcmap::testing::Ip("198.51.100.0").bytes());
  row.key_end.Append(svcmap::testing::Ip("198.51.100.255").bytes());
  return row;
}

// Returns whether packets must leave the rules after each phase before the change.
std::vector<bool> Waits(const std::vector<svcmap::testing::Row>& deletions,
                        const std::vector<svcmap::testing::Row>& additions) {
  std::vector<bool> waits;
  for (const FirstPhase& phase : SplitIntoPhases(Changes(deletions, additions), {}).first) {
    waits.push_back(phase.await_packets);
  }
  return waits;
}

// A packet that has missed the single port before the change must not miss the range after it.
// A packet that has missed the restriction must not find the Service after it.
TEST(FirstTest, PacketsLeaveTheRulesBeforeTheirNextLookupChanges) {
  EXPECT_THAT(Waits({RangePort(80)}, {SinglePort(80)}), ElementsAre(false, false, true));
  EXPECT_THAT(Waits({}, {RangeFirewallIp("203.0.113.1"), RangeSource("203.0.113.1")}),
              ElementsAre(false, true, false));
  EXPECT_THAT(Waits({}, {SinglePort(80)}), ElementsAre(false, false, false));
}

TEST(FirstTest, RangesOfANewlyRestrictedIpAreAddedFirst) {
  nft::Transaction transaction = Changes(
      {}, {RangeFirewallIp("203.0.113.1"), RangeSource("203.0.113.1"), RangeSource("203.0.113.2")});
  EXPECT_THAT(Operations(First(transaction)),
              ElementsAre("+ range-firewall-sources 203.0.113.1 . tcp . 198.51.100.0/24",
                          "+ range-firewall-ips 203.0.113.1 . tcp"));
  EXPECT_EQ(transaction.element_count(), 1u);
}

TEST(FirstTest, AnIpIsRestrictedBeforeItsServiceIsAdded) {
  nft::Transaction transaction;
  transaction.RepairChains({.family = Family::kIpv4,
                            .spec = std::make_shared<nft::TableSpec>(FullTables()[0]),
                            .remove_sets = {"firewall-sources", "range-firewall-sources"}});
  transaction.Delete(RangeFirewallIp("203.0.113.2"));
  transaction.Add(RangeFirewallIp("203.0.113.1"));
  transaction.Add(RangeFirewallIp("203.0.113.2"));
  transaction.Add(RangeFirewallIp("203.0.113.3"));
  transaction.Add(RangeSource("203.0.113.3"));  // Its set is replaced.
  transaction.Add(ServiceIp("1.0.0.1"));
  EXPECT_THAT(Operations(First(transaction)),
              ElementsAre("+ range-firewall-ips 203.0.113.1 . tcp"));
  EXPECT_EQ(transaction.element_count(), 5u);
}

TEST(FirstTest, AClusterIpIsAddedBeforeItsServiceIfTrafficIsMasqueraded) {
  nft::Transaction transaction =
      Changes({}, {ClusterIpRow(Family::kIpv4, 1), ServiceIp("1.0.0.1")});
  EXPECT_TRUE(First(transaction).empty());
  EXPECT_THAT(Operations(First(transaction, {.masquerades_cluster_ips = true})),
              ElementsAre(StartsWith("+ cluster-ips")));
  EXPECT_EQ(transaction.element_count(), 1u);
}

TEST(RemovalsTest, RangesOfAnIpThatIsNoLongerRestrictedAreDeletedAfterTheSwitch) {
  nft::Transaction transaction = Changes(
      {RangeFirewallIp("203.0.113.1"), RangeSource("203.0.113.1"), RangeSource("203.0.113.2")}, {});
  EXPECT_THAT(Operations(Removals(transaction)),
              ElementsAre("- range-firewall-sources 203.0.113.1 . tcp . 198.51.100.0/24"));
}

// A packet to a port that stays must not see the restriction without its source ranges.
TEST(RemovalsTest, ARangeThatLosesPortsAndItsRestrictionLosesItsSourcesLast) {
  svcmap::testing::Row port = RangePort(80);
  port.key = ServiceIpKey(svcmap::testing::Ip("203.0.113.1"), Protocol::kTcp, 80);
  nft::Transaction transaction =
      Changes({RangeSource("203.0.113.1"), RangeFirewallIp("203.0.113.1"), port}, {});
  Leftovers leftovers;
  leftovers.Add(Removals(transaction), {});
  EXPECT_THAT(Operations(transaction), ElementsAre("- range-ports 203.0.113.1 . tcp . 80"));
  leftovers.EndWait(leftovers.BeginWait());
  EXPECT_THAT(Operations(leftovers.Next()), ElementsAre("- range-firewall-ips 203.0.113.1 . tcp"));
  leftovers.ForgetNext();
  leftovers.EndWait(leftovers.BeginWait());
  EXPECT_THAT(Operations(leftovers.Next()),
              ElementsAre("- range-firewall-sources 203.0.113.1 . tcp . 198.51.100.0/24"));
}

// When the session affinity of a port ends, a packet in the rules may already use an affinity
// endpoint. Therefore affinity endpoints are deleted in a later transaction.
TEST(RemovalsTest, EndpointsForAffinityAreDeletedWithTheAffinity) {
  const auto sticky_endpoint = [](uint16_t port) {
    svcmap::testing::Row row{.set = {Family::kIpv4, kAffinityEndpoints}};
    row.key.AppendU32Be(Choice(port, 1));
    return row;
  };
  nft::Transaction transaction;
  transaction.Delete(
      svcmap::testing::Row{.set = {Family::kIpv4, kAffinitySlots},
                           .key = nft::FieldBytes().AppendU16Be(3).AppendU32Host(0)});
  transaction.Delete(sticky_endpoint(5));
  transaction.Delete(sticky_endpoint(6));
  transaction.Delete(ServiceIp("192.0.0.3"));
  transaction.Add(ServiceIp("1.0.0.2"));
  const nft::Transaction removals =
      Removals(transaction, {.ended_sets = {EndedSets::KeyOf(sticky_endpoint(5))}});
  EXPECT_EQ(removals.element_count(), 2u);
  EXPECT_EQ(transaction.element_count(), 3u);  // Port 6 keeps its session affinity.
}

// A packet that was looked up before the switch must still find the restriction.
TEST(RemovalsTest, ARestrictionOfPortRangesIsDeletedAfterTheRanges) {
  nft::Transaction all = Changes({RangePort(80), RangeFirewallIp("10.96.0.1")}, {});
  EXPECT_THAT(Operations(Removals(all)), ElementsAre("- range-firewall-ips 10.96.0.1 . tcp"));
  nft::Transaction part = Changes({RangePort(80), RangeFirewallIp("10.96.0.1")},
                                  {RangePort(80)});  // The range stays, and its restriction ends.
  EXPECT_TRUE(Removals(part).empty());
}

// If a load balancer IP is no longer restricted, the restriction is deleted before the source
// ranges.
TEST(RemovalsTest, S116SourceRangesAreDeletedAfterTheRestriction) {
  const svcmap::testing::Row range = svcmap::testing::SourceRow(Family::kIpv4, 1, 0x100, 0x1ff);
  svcmap::testing::Row restriction{.set = {Family::kIpv4, kFirewallIps}};
  restriction.key.Append(range.key.bytes().subspan(0, range.key.bytes().size() - 4));
  nft::Transaction all = Changes({range, restriction}, {});
  EXPECT_EQ(Removals(all).element_count(), 1u);
  nft::Transaction part =
      Changes({range}, {ClusterIpRow(Family::kIpv4, 1)});  // The IP is still restricted.
  EXPECT_TRUE(Removals(part).empty());
}

// A port that moves to a map with an earlier lookup leads to new groups before the change.
TEST(FirstTest, NewGroupsAreAddedBeforeAMovedPort) {
  nft::Transaction transaction =
      Changes({RangeBlock(0), Slot(1, 0), ServiceIp("1.0.0.1")},
              {Slot(1, 0, "10.0.0.2"), Slot(2, 0), ServiceIp("1.0.0.2"), SinglePort(81)});
  EXPECT_THAT(Operations(First(transaction)),
              ElementsAre("+ endpoints 0x2 . 0 : 10.0.0.1 . 8080",
                          "+ service-ips 10.96.0.1 . tcp . 81 : 2.0.0.1"));
  EXPECT_EQ(transaction.element_count(), 5u);
}

// A pick of an added slot must find what the slot leads to.
TEST(FirstTest, SlotsAreAddedLast) {
  const svcmap::testing::Row sticky_slot{.set = {Family::kIpv4, kAffinitySlots},
                                         .key = nft::FieldBytes().AppendU16Be(1).AppendU32Host(4),
                                         .data = nft::FieldBytes().AppendU32Be(Choice(5, 1))};
  nft::Transaction transaction = Changes({RangeBlock(0)}, {sticky_slot, Slot(1, 4)});
  svcmap::testing::Row choice{.set = {Family::kIpv4, kAffinityEndpoints}};
  choice.key.AppendU32Be(Choice(5, 1));
  transaction.Add(choice);
  transaction.Add(SinglePort(81));
  EXPECT_THAT(
      Operations(First(transaction)),
      ElementsAre(StartsWith("+ affinity-endpoints"), StartsWith("+ affinity-slots"),
                  StartsWith("+ endpoints"), "+ service-ips 10.96.0.1 . tcp . 81 : 2.0.0.1"));
  EXPECT_EQ(transaction.element_count(), 1u);
}

TEST(RemovalsTest, TheFirstSlotOfEachGroupComesFirst) {
  nft::Transaction transaction;
  transaction.CreateTable({.family = Family::kIpv4});
  for (const uint32_t group : {1, 2}) {
    for (const uint32_t slot : {0, 1}) transaction.Add(Slot(group, slot));
  }
  transaction.Add(ServiceIp("1.0.0.1"));
  PutFirstSlotsFirst(transaction);
  EXPECT_THAT(transaction.creations(), SizeIs(1));
  EXPECT_THAT(Operations(transaction), ElementsAre("+ endpoints 0x1 . 0 : 10.0.0.1 . 8080",
                                                   "+ endpoints 0x2 . 0 : 10.0.0.1 . 8080",
                                                   "+ service-ips 10.96.0.1 . tcp . 80 : 1.0.0.1",
                                                   "+ endpoints 0x1 . 1 : 10.0.0.1 . 8080",
                                                   "+ endpoints 0x2 . 1 : 10.0.0.1 . 8080"));
}

TEST(FirstTest, EndpointsForAffinityAreAddedBeforeALargeChange) {
  nft::Transaction transaction;
  for (size_t i = 0; i < kMaxElementsTogether; ++i) {
    transaction.Add(ClusterIpRow(Family::kIpv4, static_cast<uint32_t>(i)));
  }
  for (const uint8_t set : {kAffinityEndpoints, kAffinityLocalEndpoints, kRangeAffinityEndpoints,
                            kRangeAffinityLocalEndpoints}) {
    svcmap::testing::Row row{.set = {Family::kIpv4, set}};
    row.key.AppendU32Be(Choice(5, 1));
    transaction.Add(row);
  }
  transaction.Add(ServiceIp("192.0.0.3"));
  EXPECT_EQ(First(transaction).element_count(), 4u);
  EXPECT_EQ(transaction.element_count(), kMaxElementsTogether + 1);
}

TEST(LeftoversTest, NumbersAreFreeAfterTheLastPortion) {
  Leftovers leftovers;
  nft::Transaction rows;
  for (uint32_t i = 0; i <= kElementsPerCommit; ++i) rows.Delete(Slot(1, i));
  const Number number{NumberPool::kGroups, Family::kIpv4, 1};
  leftovers.Add(std::move(rows), {number});
  leftovers.EndWait(leftovers.BeginWait());
  EXPECT_EQ(leftovers.Next().element_count(), kElementsPerCommit);
  EXPECT_THAT(leftovers.TakeFreeNumbers(), IsEmpty());
  leftovers.ForgetNext();
  EXPECT_EQ(leftovers.Next().element_count(), 1u);
  EXPECT_THAT(leftovers.TakeFreeNumbers(), IsEmpty());
  leftovers.ForgetNext();
  EXPECT_TRUE(leftovers.empty());
  EXPECT_THAT(leftovers.TakeFreeNumbers(), ElementsAre(number));
  EXPECT_THAT(leftovers.TakeFreeNumbers(), IsEmpty());
}

TEST(LeftoversTest, S116SourceRangesMayOverlap) {
  Leftovers leftovers;
  nft::Transaction rows, range;
  rows.Delete(svcmap::testing::SourceRow(Family::kIpv4, 1, 0x100, 0x1ff));
  range.Add(svcmap::testing::SourceRow(Family::kIpv4, 1, 0x0, 0xffff));
  leftovers.Add(std::move(rows), {});
  EXPECT_TRUE(leftovers.CollideWith(range));
  leftovers.EndWait(leftovers.BeginWait());
  leftovers.ForgetNext();
  EXPECT_FALSE(leftovers.CollideWith(range));
}

// Until then, the restriction applies to the new range.
TEST(LeftoversTest, ANewRangeWaitsUntilTheOldRestrictionOfItsAddressIsDeleted) {
  Leftovers leftovers;
  leftovers.Add(Changes({RangeFirewallIp("10.96.0.1")}, {}), {});
  EXPECT_TRUE(leftovers.CollideWith(Changes({}, {RangePort(80)})));
  EXPECT_TRUE(leftovers.CollideWith(Changes({}, {RangeBlock(3)})));
  EXPECT_FALSE(leftovers.CollideWith(Changes({}, {SinglePort(80)})));
}

// Returns the set of the first element.
uint8_t SetOfFirst(const nft::Transaction& transaction) {
  std::optional<uint8_t> set;
  transaction.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (!set) set = element.set.set;
  });
  return set.value();
}

// Returns the deletion of a slot.
nft::Transaction Deletion(uint32_t slot) {
  nft::Transaction rows;
  rows.Delete(Slot(1, slot));
  return rows;
}

TEST(LeftoversTest, RowsAreDueAfterAWaitThatBeganAfterTheirCommit) {
  Leftovers leftovers;
  leftovers.Add(Deletion(1), {});
  EXPECT_FALSE(leftovers.due());
  EXPECT_TRUE(leftovers.NeedWait());
  const uint64_t wait = leftovers.BeginWait();
  EXPECT_FALSE(leftovers.NeedWait());
  leftovers.Add(Deletion(2), {});
  leftovers.Add(Deletion(3), {});
  leftovers.EndWait(wait);
  EXPECT_TRUE(leftovers.due());
  EXPECT_THAT(Operations(leftovers.Next()), ElementsAre("- endpoints 0x1 . 1"));
  leftovers.ForgetNext();
  EXPECT_FALSE(leftovers.due());
  EXPECT_TRUE(leftovers.NeedWait());
  leftovers.EndWait(leftovers.BeginWait());
  EXPECT_THAT(Operations(leftovers.Next()),
              ElementsAre("- endpoints 0x1 . 2", "- endpoints 0x1 . 3"));
}

TEST(LeftoversTest, TheEndOfAnAbandonedWaitHasNoEffect) {
  Leftovers leftovers;
  leftovers.Add(Deletion(1), {});
  const uint64_t abandoned = leftovers.BeginWait();
  leftovers.Add(Deletion(2), {});
  const uint64_t wait = leftovers.BeginWait();
  leftovers.EndWait(abandoned);
  EXPECT_FALSE(leftovers.due());
  leftovers.EndWait(wait);
  EXPECT_TRUE(leftovers.due());
}

// A packet that has found the restriction looks up its source next.
TEST(LeftoversTest, S116SourceRangesWaitUntilTheirRestrictionIsDeleted) {
  Leftovers leftovers;
  const auto add = [&](uint32_t slot) {
    nft::Transaction rows = Deletion(slot);
    rows.Delete(svcmap::testing::SourceRow(Family::kIpv4, 1, slot * 0x100, slot * 0x100 + 0xff));
    leftovers.Add(std::move(rows), {});
  };
  for (uint32_t slot = 0; slot < 40; ++slot) add(slot);
  leftovers.EndWait(leftovers.BeginWait());
  EXPECT_EQ(leftovers.Next().element_count(), 40u);
  EXPECT_FALSE(HasSourceRanges(SetOfFirst(leftovers.Next())));
  leftovers.ForgetNext();
  EXPECT_FALSE(leftovers.due());
  add(40);  // Waits for its restriction, and does not delay the others.
  leftovers.EndWait(leftovers.BeginWait());
  EXPECT_EQ(leftovers.Next().element_count(), 41u);
  EXPECT_TRUE(HasSourceRanges(SetOfFirst(leftovers.Next())));
  leftovers.ForgetNext();
  EXPECT_FALSE(leftovers.due());
  leftovers.EndWait(leftovers.BeginWait());
  EXPECT_EQ(leftovers.Next().element_count(), 1u);
  leftovers.ForgetNext();
  EXPECT_TRUE(leftovers.empty());
}

}  // namespace
}  // namespace svcmap::proxy::test
