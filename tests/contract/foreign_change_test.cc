// Tests of the monitor's reports on changes by other processes (S-345), on the real kernel, also
// with faults of the monitor's socket. nft(8) makes the changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nft/netlink/watched_kernel.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/contract/rule_handles.h"
#include "tests/contract/scripted_faults.h"
#include "tests/support/nft.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::nft {
namespace {

using namespace std::chrono_literals;
using ::svcmap::testing::Address;
using ::svcmap::testing::Changes;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::Row;
using ::svcmap::testing::ServiceRow;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// Collects the changes that the monitor reports.
class ReportedChanges {
 public:
  void Add(const ForeignChange& change) {
    {
      const std::lock_guard lock(mutex_);
      changes_.push_back(change);
    }
    changed_.notify_all();
  }
  std::optional<ForeignChange> Next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, testing::kHangLimit, [&] { return !changes_.empty(); }))
      return std::nullopt;
    ForeignChange change = std::move(changes_.front());
    changes_.pop_front();
    return change;
  }
  std::vector<std::string> Texts() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const ForeignChange& change : changes_) texts.push_back(change.text);
    return texts;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ForeignChange> changes_;
};

// A watched kernel with svcmapd's tables and some elements, and the changes that its monitor has
// reported.
class WatchedWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    for (const Family family : kFamilies) tables_.push_back(proxy::MakeTable(family, {}));
    Open({});
    Transaction creation;
    for (const Family family : kFamilies) creation.CreateTable({family});
    Commit(creation);
    Add({testing::ServiceRow(Family::kIpv4, 1), testing::ServiceRow(Family::kIpv4, 2),
         testing::ClusterIpRow(Family::kIpv4, 1),
         testing::EndpointRow(1, 0, testing::Address(Family::kIpv4, 9), 80),
         testing::EndpointRow(1, 1, testing::Address(Family::kIpv4, 8), 80),
         testing::RangeStart(testing::Address(Family::kIpv4, 0x100)),
         testing::RangeEnd(testing::Address(Family::kIpv4, 0x200)),
         testing::SourceRow(Family::kIpv4, 1, 0x100, 0x1ff),
         testing::RecordRow(Family::kIpv4, 7, 1, 0x10001)});
    WaitUntilReported();
  }
  void Open(WatchedKernelOptions options) {
    kernel_.reset();
    ASSERT_OK_AND_ASSIGN(kernel_, netns_->Run([&] {
      return WatchedKernel::Open(
          tables_, [this](const ForeignChange& change) { heard_.Add(change); }, options);
    }));
  }

  void Commit(const Transaction& transaction) {
    const ApplyResult result = kernel_->Apply(transaction);
    ASSERT_EQ(result.outcome, ApplyOutcome::kCommitted) << result.error;
  }
  void Add(const std::vector<testing::Row>& rows) { Commit(testing::Changes({}, rows)); }
  void Nft(const std::string& script) { ASSERT_OK(testing::RunNft(*netns_, script)); }

  uint32_t Generation() {
    const absl::StatusOr<uint32_t> generation = kernel_->Generation();
    EXPECT_OK(generation);
    return generation.value_or(0);
  }
  // Waits until the monitor has reported all changes made so far.
  void WaitUntilReported() {
    const uint32_t generation = Generation();
    ASSERT_TRUE(testing::WaitUntil([&] { return kernel_->reported_generation() == generation; }))
        << "not reported: " << generation;
  }
  ForeignChange AfterNft(const std::string& script) {
    Nft(script);
    std::optional<ForeignChange> change = heard_.Next();
    EXPECT_TRUE(change) << "nothing was handed out";
    WaitUntilReported();
    EXPECT_THAT(heard_.Texts(), ::testing::IsEmpty()) << "more than one";
    return change.value_or(ForeignChange());
  }
  void ExpectNothing() {
    WaitUntilReported();
    EXPECT_THAT(heard_.Texts(), ::testing::IsEmpty());
  }
  static ForeignChange::Touched Touched(const testing::Row& row) {
    const auto key = row.key.bytes();
    return {row.set, {key.begin(), key.end()}};
  }

  std::optional<testing::NetNs> netns_;
  TableSpecs tables_;
  ReportedChanges heard_;
  std::unique_ptr<WatchedKernel> kernel_;
};

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

// Tests of failures of the monitor's socket. After any failure, the monitor must report changes by
// other processes either individually or as lost (S-345). alive() must show whether the monitor
// receives notifications.

constexpr Family kWatchedFamily = Family::kIpv4;
constexpr char kForeign[] = "add rule ip svcmap services accept";

// Returns true if the message is a notification. Responses contain the port id of the requesting
// socket.
bool IsNotification(uint32_t port_id, std::span<const uint8_t> datagram) {
  return reinterpret_cast<const nlmsghdr*>(datagram.data())->nlmsg_pid != port_id;
}

class WatcherFaultsTest : public WatchedWorld {
 protected:
  void SetUp() override {
    WatchedWorld::SetUp();
    if (HasFatalFailure() || !netns_) return;
    Open({.session = {.faults = &own_},
          .monitor = {.check_interval = 20ms, .patience = 100ms, .faults = &watcher_}});
  }
  void TearDown() override { kernel_.reset(); }

  void ExpectLoss(const std::string& text) {
    const std::optional<ForeignChange> change = heard_.Next();
    ASSERT_TRUE(change);
    EXPECT_TRUE(change->lost);
    EXPECT_THAT(change->text, HasSubstr(text));
  }
  void ExpectReport() {
    Nft(kForeign);
    const std::optional<ForeignChange> change = heard_.Next();
    ASSERT_TRUE(change);
    EXPECT_FALSE(change->lost);
    EXPECT_EQ(change->text, "1 rule added to services");
    WaitUntilReported();
  }
  void WaitFor(const std::function<bool()>& condition) {
    ASSERT_TRUE(testing::WaitUntil(condition));
  }
  Transaction Large() {
    Transaction transaction;
    for (uint32_t i = 0; i < 2000; ++i) transaction.Add(ServiceRow(kWatchedFamily, 1000 + i));
    return transaction;
  }
  // Calls `fn` when the next large batch is sent.
  void BeforeLargeBatch(std::function<void()> fn) {
    const std::lock_guard lock(own_.mutex);
    own_.send = [this, fn](uint32_t, std::span<const uint8_t> bytes) {
      if (bytes.size() > 10'000) {
        own_.send = nullptr;
        fn();
      }
      return 0;
    };
  }

  ScriptedFaults own_;
  ScriptedFaults watcher_;
};

TEST_F(WatcherFaultsTest, S345_AForeignCommitDuringALargeBatchIsALoss) {
  BeforeLargeBatch([&] { Nft(kForeign); });
  Commit(Large());
  ExpectLoss("another process committed during a large batch");
  WaitUntilReported();
  ExpectReport();
}

// The reader is slower than the notifications, so the kernel drops notifications.
TEST_F(WatcherFaultsTest, S345_AnOverflowIsALoss) {
  std::mutex busy;
  std::atomic<bool> blocked = false;
  watcher_.Set(&ScriptedFaults::receive, [&](uint32_t, std::span<const uint8_t>) {
    blocked = true;
    const std::lock_guard wait(busy);
    return SocketFaults::Receipt();
  });
  {
    const std::lock_guard lock(busy);
    Nft(kForeign);
    WaitFor([&] { return blocked.load(); });
    ASSERT_OK_AND_ASSIGN(const auto other,
                         netns_->Run([&] { return NetlinkKernel::Open(tables_); }));
    Transaction flood;
    for (uint32_t i = 0; i < 100'000; ++i)
      flood.Add(EndpointRow(2, i, testing::Address(kWatchedFamily, i), 80));
    ASSERT_OK(other->Apply(flood).error);
  }
  std::optional<ForeignChange> change;
  do {
    change = heard_.Next();
    ASSERT_TRUE(change);
  } while (!change->lost);
  WaitUntilReported();
  watcher_.Clear();
  while (!heard_.Texts().empty()) heard_.Next();
  ExpectReport();
}

TEST_F(WatcherFaultsTest, S345_AFailedSocketIsReplaced) {
  std::atomic<int> failures = 0;
  watcher_.Set(&ScriptedFaults::receive, [&](uint32_t port_id, std::span<const uint8_t> datagram) {
    const bool fail = IsNotification(port_id, datagram) && ++failures == 1;
    return SocketFaults::Receipt{.error = fail ? EBADF : 0};
  });
  Nft(kForeign);
  ExpectLoss("notification socket failed");
  WaitUntilReported();
  ExpectReport();
  EXPECT_TRUE(kernel_->WatcherAlive());
}

TEST_F(WatcherFaultsTest, WithoutASocketItIsNotAliveUntilItHasOneAgain) {
  watcher_.Set(&ScriptedFaults::receive, [](uint32_t, std::span<const uint8_t>) {
    return SocketFaults::Receipt{.error = EBADF};
  });
  watcher_.Set(&ScriptedFaults::open, [](int) { return EMFILE; });
  EXPECT_TRUE(kernel_->WatcherAlive());
  Nft(kForeign);
  WaitFor([&] { return !kernel_->WatcherAlive(); });
  watcher_.Clear();
  WaitFor([&] { return kernel_->WatcherAlive(); });
  ExpectLoss("notification socket failed");
  ExpectReport();
}

TEST_F(WatcherFaultsTest, S345_ADeafWatcherStartsOverAndIsNotAliveUntilItHears) {
  watcher_.Set(&ScriptedFaults::receive, [](uint32_t port_id, std::span<const uint8_t> datagram) {
    return SocketFaults::Receipt{.drop = IsNotification(port_id, datagram)};
  });
  Add({ServiceRow(kWatchedFamily, 5)});
  ExpectLoss("no notification received for the latest commits");
  WaitFor([&] { return !kernel_->WatcherAlive(); });
  watcher_.Clear();
  Add({ServiceRow(kWatchedFamily, 6)});
  WaitFor([&] { return kernel_->WatcherAlive(); });
}

TEST_F(WatcherFaultsTest, S345_ARejectedReturnToTheGroupIsALoss) {
  std::atomic<int> rejected = 0;
  watcher_.Set(&ScriptedFaults::set_option, [&](int option) {
    return option == NETLINK_ADD_MEMBERSHIP && ++rejected == 1 ? EPERM : 0;
  });
  Commit(Large());
  ExpectLoss("cannot join the nf_tables notification group");
  WaitUntilReported();
  ExpectReport();
}

TEST_F(WatcherFaultsTest, S345_AGapThatCannotBeMeasuredIsALoss) {
  BeforeLargeBatch([&] {
    own_.receive = [this](uint32_t, std::span<const uint8_t> datagram) {
      const auto* message = reinterpret_cast<const nlmsghdr*>(datagram.data());
      const bool generation = (message->nlmsg_type & 0xff) == 15;
      if (generation) own_.receive = nullptr;
      return SocketFaults::Receipt{.error = generation ? EIO : 0};
    };
  });
  Commit(Large());
  ExpectLoss("changes during a large batch are unknown");
  WaitUntilReported();
  ExpectReport();
}

// After a late response, batches use a new socket. The monitor must recognize commits from the new
// socket as svcmapd's own commits.
TEST_F(WatcherFaultsTest, CommitsFromAFreshSocketAreOurs) {
  own_.Set(&ScriptedFaults::receive, [this](uint32_t, std::span<const uint8_t>) {
    own_.receive = nullptr;
    return SocketFaults::Receipt{.error = ENOBUFS};
  });
  EXPECT_EQ(kernel_->Apply(Changes({}, {ServiceRow(kWatchedFamily, 5)})).outcome,
            ApplyOutcome::kUnknown);
  ExpectNothing();
  Add({ServiceRow(kWatchedFamily, 6)});
  ExpectNothing();
}

// Another process commits as fast as possible. The monitor reports each commit, and svcmapd's
// commits continue.
TEST_F(WatcherFaultsTest, S345_AStormIsReportedToItsEnd) {
  constexpr int kForeignCommits = 500;
  ASSERT_OK_AND_ASSIGN(const auto other, netns_->Run([&] { return NetlinkKernel::Open(tables_); }));
  std::jthread storm([&] {
    for (uint32_t i = 0; i < kForeignCommits; ++i) {
      const auto row = EndpointRow(3, i, testing::Address(kWatchedFamily, i), 80);
      EXPECT_OK(other->Apply(Changes({}, {row})).error);
    }
  });
  for (uint32_t i = 0; i < 200; ++i) Add({ServiceRow(kWatchedFamily, 100 + i)});
  storm.join();
  WaitUntilReported();
  size_t reported = 0;
  while (!heard_.Texts().empty()) reported += heard_.Next()->elements.size();
  EXPECT_EQ(reported, kForeignCommits);
}

}  // namespace
}  // namespace svcmap::nft
