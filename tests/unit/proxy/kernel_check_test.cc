// Tests the differences that KernelCheck reports between the desired state and the kernel state
// after changes by other processes.
#include "proxy/explain/kernel_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "proxy/reconcile/reconciler.h"
#include "proxy/reconcile/row_reader.h"
#include "tests/support/fake_kernel.h"
#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/reconciler_world.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class KernelCheckTest : public ::testing::Test {
 protected:
  KernelCheckTest() {
    reconciler_.node().SetInterfaceAddresses(Ips({"192.0.2.10"}));
    Commit({ANode("n1", {"192.0.2.10"}),
            AService("shop/web").At("10.96.0.1").Port(80).NodePort(30080).Port(443, "tls"),
            ASlice("shop/web-1", "shop/web").Port(8080).Local("10.1.0.5").Ready("10.1.1.7")});
  }

  void Commit(const std::vector<Change>& changes) {
    for (const Change& change : changes) reconciler_.store().Apply(change, ++sequence_);
    ASSERT_TRUE(reconciler_.Sync(SIZE_MAX).error.ok());
  }

  Lines Disagreements(const std::string& address, uint16_t port) {
    const Question question{.destination = Ip(address), .port = port};
    const Explained explained = Explain(reconciler_.ContextForExplain(), question);
    const nft::TableSpecs tables = Tables();
    const auto check = reconciler_.MakeCheck(question, explained, tables);
    // Every portion contains one element.
    size_t portions = 1;
    while (!check->Read({})) ++portions;
    EXPECT_EQ(portions, check->elements());
    const auto lines = check->differences();
    return lines.ok() ? *lines : Lines{lines.status().ToString()};
  }

  // Removes the elements that DecidingRows returns for the given set.
  void Remove(SetIndex set, const std::string& address, uint16_t port) {
    for (const Row& row : DecidingRows(Ip(address), Protocol::kTcp, port)) {
      if (row.set.set == set) {
        EXPECT_TRUE(kernel_.ForeignRemoveElement(row.set, row.key.bytes()));
      }
    }
  }

  nft::FakeKernel kernel_{Tables()};
  Reconciler reconciler_{kernel_, {.node_name = "n1"}};
  uint64_t sequence_ = 0;
};

TEST_F(KernelCheckTest, WhatIsCommittedAgreesWithPoliciesRangesAndAffinity) {
  Commit({AService("shop/web")
              .At("10.96.0.1")
              .LoadBalancer("198.51.100.1")
              .Port(80)
              .NodePort(30080)
              .InternalLocal()
              .ExternalLocal()
              .SourceRange("203.0.113.0/24")
              .Affinity(60)});
  for (const auto& [address, port] : std::vector<std::pair<const char*, uint16_t>>{
           {"10.96.0.1", 80}, {"198.51.100.1", 80}, {"192.0.2.10", 30080}}) {
    EXPECT_THAT(Disagreements(address, port), IsEmpty()) << address << ":" << port;
  }
  Remove(kFirewallIps, "198.51.100.1", 80);
  EXPECT_THAT(Disagreements("198.51.100.1", 80),
              ElementsAre("198.51.100.1 . tcp . 80 in firewall-ips is missing in the kernel"));
}

TEST_F(KernelCheckTest, ElementsThatAreGoneAreNamed) {
  Remove(kServiceIps, "10.96.0.1", 80);
  Remove(kClusterIps, "10.96.0.1", 80);
  Remove(kNoEndpointServices, "10.96.0.1", 443);
  const Row endpoint = EndpointRow({Family::kIpv4, kEndpoints}, 1, 1, {});
  ASSERT_TRUE(kernel_.ForeignRemoveElement(endpoint.set, endpoint.key.bytes()));
  EXPECT_THAT(Disagreements("10.96.0.1", 80),
              UnorderedElementsAre("10.96.0.1 . tcp . 80 in service-ips is missing in the kernel",
                                   "10.96.0.1 in cluster-ips is missing in the kernel",
                                   "0x1 . 1 in endpoints is missing in the kernel"));
  EXPECT_THAT(
      Disagreements("10.96.0.1", 443),
      UnorderedElementsAre("10.96.0.1 . tcp . 443 in no-endpoint-services is missing in the kernel",
                           "10.96.0.1 in cluster-ips is missing in the kernel"));
}

TEST_F(KernelCheckTest, ElementsOfWhatIsNoLongerWantedAreNamed) {
  reconciler_.store().Apply(NoService("shop/web"), ++sequence_);
  EXPECT_THAT(
      Disagreements("10.96.0.1", 80),
      UnorderedElementsAre(
          "10.96.0.1 in cluster-ips is in the kernel but not in the desired state",
          "10.96.0.1 . tcp . 80 in service-ips is in the kernel but not in the desired state"));
  EXPECT_THAT(
      Disagreements("192.0.2.10", 30080),
      ElementsAre(
          "192.0.2.10 . tcp . 30080 in service-ips is in the kernel but not in the desired state"));
  Commit({});
  EXPECT_THAT(Disagreements("10.96.0.1", 80), IsEmpty());
}

TEST_F(KernelCheckTest, OtherDataIsNamedWithBoth) {
  reconciler_.store().Apply(
      ASlice("shop/web-1", "shop/web").Port(8080).Local("10.1.0.5").Ready("10.1.1.8"), ++sequence_);
  EXPECT_THAT(
      Disagreements("10.96.0.1", 80),
      ElementsAre("0x1 . 1 in endpoints has value 10.1.1.7 . 8080, expected 10.1.1.8 . 8080"));
}

// A commit between two portions makes correct elements look different.
TEST_F(KernelCheckTest, DifferencesThatACommitExplainsAreNotConfirmed) {
  const nft::TableSpecs tables = Tables();
  const Question question{.destination = Ip("10.96.0.1"), .port = 80};
  const auto make_check = [&] {
    const Explained explained = Explain(reconciler_.ContextForExplain(), question);
    return reconciler_.MakeCheck(question, explained, tables);
  };
  const auto early = make_check();
  Commit({ASlice("shop/web-1", "shop/web").Port(8080).Local("10.1.0.5").Ready("10.1.1.8")});
  Remove(kServiceIps, "10.96.0.1", 80);
  early->Read(RowReader::kNoLimit);
  EXPECT_THAT(*early->differences(), SizeIs(2));
  const auto confirmed = make_check();
  confirmed->Confirm(*early);
  EXPECT_EQ(confirmed->elements(), 2u);
  confirmed->Read(RowReader::kNoLimit);
  EXPECT_THAT(*confirmed->differences(),
              ElementsAre("10.96.0.1 . tcp . 80 in service-ips is missing in the kernel"));
}

// Tests of dumps that are read in portions, with changes between the portions.
class RowReaderTest : public ReconcilerTest {
 protected:
  static constexpr int kServices = 20;

  static std::string Name(int number) { return "shop/s" + std::to_string(number); }
  static AService Numbered(int number) {
    return AService(Name(number)).At("10.96.0." + std::to_string(number + 1)).Port(80);
  }
  RowReaderTest() {
    std::vector<Change> changes = {AServiceCidr("c", {"10.96.0.0/16"})};
    for (int i = 0; i < kServices; ++i) {
      changes.push_back(Numbered(i));
      changes.push_back(Slice(Name(i), 3, i + 1));
    }
    Settle(changes);
  }

  // Reads one Service per portion, and calls `between` after each portion.
  nft::Transaction ReadInPortions(RowReader::Rows rows,
                                  const std::function<void(int portion)>& between) {
    RowReader reader(rows);
    portions_ = 0;
    while (!reader.Read(reconciler_, {})) {
      reader.Merge();
      between(++portions_);
    }
    reader.Merge();
    return reader.Take();
  }

  int portions_ = 0;
};

TEST_F(RowReaderTest, PortionsGiveTheSameRows) {
  const auto nothing = [](int) {};
  EXPECT_EQ(Additions(ReadInPortions(RowReader::Rows::kDesired, nothing)), Contents(kernel_));
  EXPECT_GE(portions_, kServices);
  EXPECT_EQ(Additions(ReadInPortions(RowReader::Rows::kApplied, nothing)), Contents(kernel_));
  EXPECT_GE(portions_, kServices);
  EXPECT_TRUE(ReadInPortions(RowReader::Rows::kPending, nothing).empty());

  std::vector<Change> changes = {AServiceCidr("d", {"10.97.0.0/16"}), NoService(Name(3))};
  for (int i = 4; i < 9; ++i) changes.push_back(Slice(Name(i), 2, i + 1));
  changes.push_back(AService("shop/new").At("10.96.1.1").Port(80).Affinity(60));
  Apply(changes);
  const Lines pending = Operations(PendingRows(reconciler_));
  EXPECT_EQ(Operations(ReadInPortions(RowReader::Rows::kPending, nothing)), pending);
  EXPECT_GE(portions_, 7);
  const Lines desired = Additions(ReadInPortions(RowReader::Rows::kDesired, nothing));
  Sync();
  EXPECT_EQ(Contents(kernel_), desired);
  ExpectConverged();
}

// A Service that does not change is complete in a dump, whatever happens to other Services.
TEST_F(RowReaderTest, CommitsBetweenPortionsDoNotAffectOtherServices) {
  for (const RowReader::Rows rows : {RowReader::Rows::kDesired, RowReader::Rows::kApplied}) {
    const Lines before = Contents(kernel_);
    const nft::Transaction read = ReadInPortions(rows, [&](int portion) {
      const int number = portion % kServices;
      if (number % 2 == 0) return;
      // Services with odd numbers are removed, are added again, and change.
      Apply({NoService(Name(number)), NoSlice(Name(number) + "-1")});
      Sync();
      if (portion % 3 != 0) Apply({Numbered(number), Slice(Name(number), portion % 5, number + 1)});
      if (portion % 4 != 0) Sync();
    });
    Lines stable;
    for (const std::string& line : before) {
      for (int i = 0; i < kServices; i += 2) {
        if (line.find("10." + std::to_string(i + 1) + ".0.") != std::string::npos) {
          stable.push_back(line);
          break;
        }
      }
    }
    ASSERT_THAT(stable, Not(IsEmpty()));
    EXPECT_THAT(Additions(read), IsSupersetOf(stable));
    std::vector<Change> restored;
    for (int i = 0; i < kServices; ++i) {
      restored.push_back(Numbered(i));
      restored.push_back(Slice(Name(i), 3, i + 1));
    }
    Apply(restored);
    Sync();
    ExpectConverged();
  }
}

}  // namespace
}  // namespace svcmap::proxy
