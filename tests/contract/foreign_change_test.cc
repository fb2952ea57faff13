// Tests of the monitor's reports on changes by other processes, on the real kernel. nft(8) makes
// the changes (S-345).
#include "tests/contract/rule_handles.h"
#include "tests/contract/watched_world.h"
#include "tests/support/nft.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::Row;
using ::svcmap::testing::ServiceRow;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr Family kFamily = Family::kIpv4;

class ForeignChangeTest : public WatchedWorld {};

TEST_F(ForeignChangeTest, S345_DeletedElementsComeWithTheirKeysAndTheProcess) {
  // A separate program, whose name the change contains.
  ASSERT_OK(testing::RunNftProgram("nft", *netns_,
                                   "delete element ip svcmap service-ips { 10.0.0.1 . tcp . 80 }\n"
                                   "delete element ip svcmap endpoints { 0x1 . 0, 0x1 . 1 }"));
  const std::optional<ForeignChange> reported = heard_.Next();
  ASSERT_TRUE(reported);
  const ForeignChange& change = *reported;
  EXPECT_THAT(change.elements,
              UnorderedElementsAre(Touched(ServiceRow(kFamily, 1)),
                                   Touched(EndpointRow(1, 0, Address(kFamily, 9), 80)),
                                   Touched(EndpointRow(1, 1, Address(kFamily, 8), 80))));
  EXPECT_THAT(change.sets, IsEmpty());
  EXPECT_FALSE(change.table || change.structure || change.lost);
  EXPECT_EQ(change.text, "2 elements deleted from endpoints, 1 element deleted from service-ips");
  EXPECT_THAT(change.process, StartsWith("nft (pid "));
}

TEST_F(ForeignChangeTest, S345_AddedElements) {
  const ForeignChange change = AfterNft("add element ip svcmap cluster-ips { 10.0.0.7 }");
  EXPECT_THAT(change.elements, ElementsAre(Touched(ClusterIpRow(kFamily, 7))));
  EXPECT_EQ(change.text, "1 element added to cluster-ips");
}

TEST_F(ForeignChangeTest, S345_RangesComeAsTheirSets) {
  const ForeignChange change = AfterNft(
      "delete element ip svcmap service-cidrs { 10.0.1.0/24 }\n"
      "add element ip svcmap firewall-sources { 10.0.0.2 . tcp . 80 . 10.0.1.0/24 }");
  EXPECT_THAT(change.elements, IsEmpty());
  EXPECT_THAT(change.sets, UnorderedElementsAre(SetRef{kFamily, proxy::kServiceCidrs},
                                                SetRef{kFamily, proxy::kFirewallSources}));
  EXPECT_EQ(change.text,
            "1 element deleted from service-cidrs, 1 element added to firewall-sources");
}

TEST_F(ForeignChangeTest, S345_OfManyElementsOnlyTheirSetsAreKept) {
  std::vector<Row> rows;
  for (uint32_t i = 0; i <= ForeignChange::kMaxElements; ++i) {
    rows.push_back(EndpointRow(2, i, Address(kFamily, i), 80));
  }
  Add(rows);
  const ForeignChange change = AfterNft(
      "flush map ip svcmap endpoints\n"
      "delete element ip svcmap service-ips { 10.0.0.1 . tcp . 80 }");
  EXPECT_THAT(change.elements, IsEmpty());
  EXPECT_THAT(change.sets, UnorderedElementsAre(SetRef{kFamily, proxy::kEndpoints},
                                                SetRef{kFamily, proxy::kServiceIps}));
  EXPECT_FALSE(change.lost);
  EXPECT_EQ(change.text,
            "4099 elements deleted from endpoints, 1 element deleted from service-ips");
}

TEST_F(ForeignChangeTest, S345_RulesAndChainsAreStructure) {
  for (const auto& [script, text] : std::vector<std::pair<std::string, std::string>>{
           {"add rule ip svcmap services accept", "1 rule added to services"},
           {"flush chain ip svcmap services", "4 rules deleted from services"},
           {"insert rule ip6 svcmap pick meta mark { 1, 2 } drop", "1 rule added to pick"},
           {"add chain ip svcmap foreign", "chain foreign added or changed"},
           {"delete chain ip svcmap nat-output",
            "chain nat-output deleted, 1 rule deleted from nat-output"},
           {"add chain ip svcmap filter-input { policy drop; }",
            "chain filter-input added or changed"},
           {"add set ip svcmap theirs { type ipv4_addr; }", "set theirs added or changed"},
           {"add element ip svcmap theirs { 1.1.1.1 }", "1 element added to theirs"},
           {"delete set ip svcmap theirs", "set theirs deleted"},
           {"add counter ip svcmap hits", "object hits added or changed"},
           {"add table ip svcmap { flags dormant; }", "table ip svcmap added or changed"}}) {
    SCOPED_TRACE(script);
    const ForeignChange change = AfterNft(script);
    EXPECT_TRUE(change.structure);
    EXPECT_FALSE(change.table || change.lost);
    EXPECT_THAT(change.elements, IsEmpty());
    EXPECT_THAT(change.sets, IsEmpty());
    EXPECT_EQ(change.text, text);
  }
}

TEST_F(ForeignChangeTest, S345_ADeletedAndAReplacedRule) {
  const auto first = [&] {
    return " mark-masq handle " + testing::RuleHandles(*netns_, "ip svcmap", "mark-masq").front();
  };
  ForeignChange change = AfterNft("replace rule ip svcmap" + first() + " accept");
  EXPECT_TRUE(change.structure);
  EXPECT_EQ(change.text, "1 rule deleted from mark-masq, 1 rule added to mark-masq");
  change = AfterNft("delete rule ip svcmap" + first());
  EXPECT_TRUE(change.structure);
  EXPECT_EQ(change.text, "1 rule deleted from mark-masq");
}

TEST_F(ForeignChangeTest, S345_AFlushedTableIsReportedInShort) {
  const ForeignChange change = AfterNft("flush table ip svcmap");
  EXPECT_TRUE(change.structure);
  EXPECT_THAT(change.text, ::testing::MatchesRegex("[0-9]+ rules deleted from several chains"));
}

TEST_F(ForeignChangeTest, S344_DeletedTables) {
  ForeignChange change = AfterNft("delete table ip6 svcmap");
  EXPECT_TRUE(change.table);
  EXPECT_EQ(change.text, "table ip6 svcmap deleted");
  change = AfterNft("flush ruleset");
  EXPECT_TRUE(change.table);
  EXPECT_EQ(change.text, "table ip svcmap deleted");
}

// A firewall manager replaces the tables with its saved ruleset.
TEST_F(ForeignChangeTest, S344_TablesThatAreReplacedInOneTransaction) {
  const ForeignChange change = AfterNft("flush ruleset\nadd table ip svcmap\nadd table ip theirs");
  EXPECT_TRUE(change.table);
  EXPECT_TRUE(change.structure);
  EXPECT_EQ(change.text,
            "table ip svcmap deleted, table ip6 svcmap deleted, table ip svcmap added or changed");
}

TEST_F(ForeignChangeTest, RecordsOfClientsAreNotReportedButTheirSetIs) {
  Nft("flush map ip svcmap affinity");
  ExpectNothing();
  const ForeignChange change = AfterNft("flush table ip svcmap\ndelete map ip svcmap affinity");
  EXPECT_TRUE(change.structure);
  EXPECT_THAT(change.text, HasSubstr("set affinity deleted"));
}

TEST_F(ForeignChangeTest, TablesOfOthersAreNotReported) {
  Nft("add table ip theirs\nadd table inet svcmap\nadd chain inet svcmap services\n"
      "add set ip theirs endpoints { type ipv4_addr; elements = { 1.1.1.1 }; }");
  ExpectNothing();
}

TEST_F(ForeignChangeTest, OwnCommitsAreNotReportedLargeOrSmall) {
  Add({ServiceRow(kFamily, 3)});
  ExpectNothing();
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 2000; ++i) rows.push_back(ServiceRow(kFamily, 1000 + i));
  Add(rows);
  ExpectNothing();
  Transaction repair;
  repair.RepairChains({kFamily, nullptr, {"services"}, {}, {}});
  Commit(repair);
  Add({ServiceRow(kFamily, 4)});
  ExpectNothing();
}

TEST_F(ForeignChangeTest, RejectedBatchesOfOursLeaveNoGap) {
  Transaction rejected;
  for (uint32_t i = 0; i < 2000; ++i) rejected.Add(ServiceRow(kFamily, 1000 + i));
  rejected.Delete(ServiceRow(kFamily, 9999));
  EXPECT_EQ(kernel_->Apply(rejected).outcome, ApplyOutcome::kRejected);
  ExpectNothing();
  EXPECT_EQ(AfterNft("add rule ip svcmap services accept").text, "1 rule added to services");
}

// The monitor reports each transaction separately and in order.
TEST_F(ForeignChangeTest, ChangesComeInTheOrderOfTheCommits) {
  for (int i = 0; i < 20; ++i) Nft("add chain ip svcmap c" + std::to_string(i));
  for (int i = 0; i < 20; ++i) {
    const std::optional<ForeignChange> change = heard_.Next();
    ASSERT_TRUE(change);
    EXPECT_EQ(change->text, "chain c" + std::to_string(i) + " added or changed");
  }
  ExpectNothing();
}

}  // namespace
}  // namespace svcmap::nft
