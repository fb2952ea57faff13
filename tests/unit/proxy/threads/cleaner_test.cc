#include "proxy/conntrack/cleaner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nft/conntrack/flow_table.h"
#include "tests/support/wait.h"
#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// An in-memory flow table. A test can delay a listing, let a listing fail, or change flows during a
// listing.
class FakeFlowTable : public nft::FlowTable {
 public:
  void Add(nft::Flow flow) {
    const std::lock_guard lock(mutex_);
    flow.id = ++last_id_;
    flows_[flow.id] = flow;
  }
  std::vector<nft::Flow> flows() const {
    const std::lock_guard lock(mutex_);
    return Values();
  }
  int listings() const {
    const std::lock_guard lock(mutex_);
    return listings_;
  }
  size_t largest_deletion() const {
    const std::lock_guard lock(mutex_);
    return largest_deletion_;
  }

  // Makes all later listings fail with the given status.
  void FailListings(absl::Status status) {
    const std::lock_guard lock(mutex_);
    listing_error_ = std::move(status);
  }
  void CutListings(bool cut) {
    const std::lock_guard lock(mutex_);
    complete_ = !cut;
  }
  void FailDeletions(absl::Status status) {
    const std::lock_guard lock(mutex_);
    deletion_error_ = std::move(status);
  }
  // Sets a function that the cleaner's thread calls for each listed flow, before the listing
  // returns the flow.
  void OnListed(std::function<void()> fn) {
    const std::lock_guard lock(mutex_);
    on_listed_ = std::move(fn);
  }

  absl::StatusOr<Listing> ForEach(std::span<const nft::FlowKind> kinds, uint64_t max_entries,
                                  const std::function<bool(const nft::Flow&)>& on_flow) override {
    std::function<void()> on_listed;
    std::vector<nft::Flow> flows;
    Listing listing;
    {
      const std::lock_guard lock(mutex_);
      ++listings_;
      if (!listing_error_.ok()) return listing_error_;
      on_listed = on_listed_;
      flows = Values();
      if (flows.size() > max_entries) {
        flows.resize(max_entries);
        listing.cut = true;
      }
      listing.entries = flows.size();
      listing.complete = complete_;
    }
    for (const nft::Flow& flow : flows) {
      if (std::count(kinds.begin(), kinds.end(), flow.kind()) == 0) continue;
      if (on_listed) on_listed();
      if (!on_flow(flow)) return absl::CancelledError("left");
    }
    return listing;
  }

  Deletion Delete(std::span<const nft::Flow> victims) override {
    const std::lock_guard lock(mutex_);
    Deletion deletion;
    deletion.status = deletion_error_;
    if (!deletion.status.ok()) return deletion;
    largest_deletion_ = std::max(largest_deletion_, victims.size());
    for (const nft::Flow& victim : victims) {
      const auto found = flows_.find(victim.id);
      const bool same = found != flows_.end() && found->second.original == victim.original &&
                        found->second.reply == victim.reply;
      ++(same ? deletion.deleted : deletion.gone);
      if (same) flows_.erase(found);
    }
    return deletion;
  }

 private:
  std::vector<nft::Flow> Values() const {
    std::vector<nft::Flow> flows;
    for (const auto& [id, flow] : flows_) flows.push_back(flow);
    return flows;
  }

  mutable std::mutex mutex_;
  std::map<uint32_t, nft::Flow> flows_;  // Flows by id.
  uint32_t last_id_ = 0;
  int listings_ = 0;
  size_t largest_deletion_ = 0;
  bool complete_ = true;
  absl::Status listing_error_, deletion_error_;
  std::function<void()> on_listed_;
};

UdpPorts UdpAt(const std::string& destination, const std::vector<std::string>& endpoints) {
  return {{{End(destination).address.family(), ""}, {{End(destination)}, Endpoints(endpoints)}}};
}

class CleanerTest : public ::testing::Test {
 protected:
  void Start(std::chrono::milliseconds first_retry = std::chrono::milliseconds(1)) {
    cleaner_.emplace(table_, CleanerOptions{.settle = std::chrono::milliseconds(0),
                                            .rest_factor = 0,
                                            .gone_after = gone_after_,
                                            .handshake_wait = handshake_wait_,
                                            .max_handshake_entries = max_handshake_entries_,
                                            .repeat = kRepeat,
                                            .first_retry = first_retry,
                                            .last_retry = first_retry,
                                            .find = find_,
                                            .on_round = [this](const Cleanup& cleanup) {
                                              const std::lock_guard lock(mutex_);
                                              rounds_.push_back(cleanup);
                                              more_.notify_all();
                                            }});
    cleaner_->Start();
  }
  void StartComplete() {
    Start();
    cleaner_->StateIsComplete();
  }
  // Waits for the end of cleanup round `number`, counted from 0.
  Cleanup Round(size_t number) {
    std::unique_lock lock(mutex_);
    const bool came =
        more_.wait_for(lock, svcmap::testing::kHangLimit, [&] { return rounds_.size() > number; });
    EXPECT_TRUE(came) << "round " << number;
    return came ? rounds_[number] : Cleanup();
  }
  std::vector<std::string> Tracked() const {
    std::vector<std::string> texts;
    for (const nft::Flow& flow : table_.flows()) {
      texts.push_back(Text(flow.original.destination) + " " + Text(flow.reply.source));
    }
    return texts;
  }

  static constexpr std::chrono::milliseconds kRepeat{50};
  FakeFlowTable table_;
  std::chrono::milliseconds handshake_wait_{20}, gone_after_{20};
  uint64_t max_handshake_entries_ = CleanerOptions().max_handshake_entries;
  std::function<StaleConnections(std::span<const nft::Flow>)> find_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Cleanup> rounds_;
  std::optional<Cleaner> cleaner_;
};

TEST_F(CleanerTest, S240StaleFlowsAreDeletedAndCounted) {
  table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  table_.Add(Flow("10.96.0.1:53", "10.0.0.2:53"));
  table_.Add(Flow("[fd00::1]:53", "[fd01::1]:53"));
  StartComplete();
  cleaner_->Update(
      {{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53"})}, {"ns/b", UdpAt("[fd00::1]:53", {})}});
  const Cleanup round = Round(0);
  EXPECT_THAT(Tracked(), ElementsAre("10.96.0.1:53 10.0.0.1:53"));
  EXPECT_EQ(round.services, 2u);
  EXPECT_EQ(round.entries, 3u);
  EXPECT_THAT(round.deleted, ElementsAre(1, 1));
  EXPECT_TRUE(round.complete);
  EXPECT_TRUE(round.error.ok()) << round.error;
  EXPECT_THAT(cleaner_->status().deleted, ElementsAre(1, 1));
}

// While a client sends without pause, a reply can be in flight during each deletion. Such a reply
// creates a new flow in the opposite direction.
TEST_F(CleanerTest, S247ScansAreRepeatedUntilNoFlowComesBack) {
  const nft::Flow sent = Flow("10.96.0.1:53", "10.96.0.1:53");
  int replies = 0;
  table_.OnListed([&] {
    if (++replies <= 3) table_.Add({.original = sent.reply, .reply = sent.original});
  });
  table_.Add(sent);
  StartComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53"})}});
  for (int scan = 0; scan < 4; ++scan) EXPECT_THAT(Round(scan).deleted, ElementsAre(1, 0));
  EXPECT_THAT(Round(4).deleted, ElementsAre(0, 0));
  EXPECT_THAT(Tracked(), IsEmpty());
}

// A reply can still be in flight after a scan that begins shortly after the deletion.
TEST_F(CleanerTest, S247AnotherScanDoesNotReplaceTheRepeatedScan) {
  using Clock = std::chrono::steady_clock;
  const nft::Flow sent = Flow("10.96.0.1:53", "10.96.0.1:53");
  StartComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53"})}});
  Clock::time_point before;
  size_t number = 0, services = 1;
  do {  // Until a scan without deletions ends before the time of the repeated scan.
    before = Clock::now();
    table_.Add(sent);
    cleaner_->TablesRepaired();
    while (!Tracked().empty()) Round(number++);
    ++services;
    cleaner_->Update({{"ns/" + std::to_string(services), UdpAt("10.96.0.2:53", {})}});
    while (Round(number).services < services) ++number;
  } while (Clock::now() - before >= kRepeat);
  table_.Add({.original = sent.reply, .reply = sent.original});
  while (!Tracked().empty()) Round(++number);
}

// If the cleaner started before all EndpointSlices were known, Services would lose all their flows.
TEST_F(CleanerTest, S237NothingIsClearedBeforeTheStateIsComplete) {
  table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  Start();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {})}});
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53"})}});
  EXPECT_EQ(table_.listings(), 0);
  cleaner_->StateIsComplete();
  EXPECT_EQ(Round(0).services, 1u);
  EXPECT_THAT(Tracked(), SizeIs(1));
}

TEST_F(CleanerTest, S347ChangesDuringARoundAreMergedIntoTheNext) {
  std::promise<void> in_round, go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  std::atomic<int> listed = 0;
  table_.OnListed([&] {
    if (++listed == 1) in_round.set_value();
    may_go_on.wait_for(svcmap::testing::kHangLimit);
  });
  StartComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53"})}});
  ASSERT_EQ(in_round.get_future().wait_for(svcmap::testing::kHangLimit), std::future_status::ready);
  // Update returns without waiting for the current cleanup round.
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {})}});
  cleaner_->Update({{"ns/b", UdpAt("10.96.0.2:53", {})}});
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53", "10.0.0.2:53"})}});
  {
    const std::lock_guard lock(mutex_);
    EXPECT_THAT(rounds_, IsEmpty());
  }
  go_on.set_value();
  EXPECT_EQ(Round(1).services, 2u);
  EXPECT_THAT(Tracked(), SizeIs(1));
}

// Packets can use an endpoint as soon as its commit is done, including while flows are listed.
TEST_F(CleanerTest, AUdpFlowIsKeptIfItsEndpointIsAddedDuringTheRound) {
  table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  table_.Add(Flow("10.96.0.1:53", "10.0.0.3:53"));
  table_.OnListed([this] {
    cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.2:53", "10.0.0.3:53"})}});
  });
  StartComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.2:53"})}});
  EXPECT_THAT(Round(0).deleted, ElementsAre(1, 0));
  EXPECT_THAT(Tracked(), ElementsAre("10.96.0.1:53 10.0.0.3:53"));
}

TEST_F(CleanerTest, AUdpFlowIsKeptIfAnotherServiceTakesItsDestinationDuringTheRound) {
  table_.Add(Flow("10.96.0.1:53", "10.0.0.2:53"));
  table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  table_.OnListed([this] {
    cleaner_->Update({{"ns/b", UdpAt("10.96.0.1:53", {"10.0.0.2:53"})}, {"ns/a", {}}});
  });
  StartComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.3:53"})}});
  EXPECT_THAT(Round(0).deleted, ElementsAre(1, 0));
  EXPECT_THAT(Tracked(), ElementsAre("10.96.0.1:53 10.0.0.2:53"));
}

TEST_F(CleanerTest, NoFlowIsDeletedDuringACommit) {
  table_.Add(Flow("10.96.0.1:53", "10.0.0.2:53"));
  // A commit with the flow's endpoint ends after the flow was listed.
  find_ = [&](std::span<const nft::Flow> flows) {
    cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53", "10.0.0.2:53"})}});
    return std::vector<std::optional<ServiceHash>>(flows.size());
  };
  Start();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53"})}});
  cleaner_->StateIsComplete();
  EXPECT_THAT(Round(0).deleted, ElementsAre(0, 0));
  EXPECT_THAT(Tracked(), SizeIs(1));
}

TEST_F(CleanerTest, MemoryIsBoundedHoweverManyFlowsAreStale) {
  constexpr size_t kFlows = 10000;
  for (size_t i = 0; i < kFlows; ++i) table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  StartComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {})}});
  EXPECT_EQ(Round(0).deleted[0], kFlows);
  EXPECT_THAT(Tracked(), IsEmpty());
  EXPECT_EQ(table_.largest_deletion(), 4096u);
  EXPECT_EQ(table_.listings(), 1);
}

TEST_F(CleanerTest, S243APartialListIsUsedAndTheRoundRepeated) {
  table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  table_.CutListings(true);
  StartComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {})}});
  const Cleanup cut = Round(0);
  EXPECT_FALSE(cut.complete);
  EXPECT_TRUE(cut.error.ok()) << cut.error;
  EXPECT_EQ(cut.deleted[0], 1u);
  table_.CutListings(false);
  for (size_t number = 1; !Round(number).complete; ++number) continue;
  EXPECT_EQ(cleaner_->status().failures, 0u);
}

TEST_F(CleanerTest, S243AfterAnErrorTheSameServicesAreRetried) {
  table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  table_.FailListings(absl::InternalError("no"));
  StartComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {})}});
  EXPECT_EQ(Round(0).error.message(), "no");
  EXPECT_THAT(Tracked(), SizeIs(1));
  table_.FailDeletions(absl::InternalError("not yet"));
  table_.FailListings(absl::OkStatus());
  size_t number = 1;
  while (Round(number).error.message() == "no") ++number;
  EXPECT_EQ(Round(number).error.message(), "not yet");
  EXPECT_THAT(Tracked(), SizeIs(1));
  table_.FailDeletions(absl::OkStatus());
  while (!Round(number).complete) ++number;
  EXPECT_THAT(Tracked(), IsEmpty());
  EXPECT_GE(cleaner_->status().failures, 2u);
}

// An endpoint that has left the Service.
EndpointChanges Left(const std::string& service, const std::string& endpoint) {
  return {.left = {{HashOfService(service), Endpoints({endpoint})[0]}}};
}

nft::Flow TcpFlow(const std::string& destination, const std::string& endpoint) {
  nft::Flow flow = Flow(destination, endpoint);
  flow.protocol = nft::TransportProtocol::kTcp;
  return flow;
}

nft::Flow Handshake(const std::string& destination, const std::string& endpoint) {
  nft::Flow flow = TcpFlow(destination, endpoint);
  flow.unreplied = true;
  return flow;
}

class CleanerHandshakeTest : public CleanerTest {
 protected:
  using Stale = std::vector<std::optional<ServiceHash>>;

  // Handshakes with these endpoints are stale.
  void StartWithStale(const std::vector<std::string>& endpoints) {
    FindStale(endpoints);
    StartComplete();
  }
  void FindStale(const std::vector<std::string>& endpoints) {
    find_ = [this, endpoints](std::span<const nft::Flow> flows) {
      ++asked_;
      Stale stale(flows.size());
      for (size_t i = 0; i < flows.size(); ++i) {
        const std::string endpoint = Text(flows[i].reply.source);
        if (std::ranges::count(endpoints, endpoint) > 0) stale[i] = HashOfService("ns/web");
      }
      return stale;
    };
  }
  std::atomic<int> asked_ = 0;
};

TEST_F(CleanerHandshakeTest, S242_StaleHandshakesAreDeletedInTheSecondRound) {
  table_.Add(Handshake("10.96.0.1:80", "10.0.0.1:80"));
  table_.Add(Handshake("10.96.0.1:80", "10.0.0.2:80"));
  table_.Add(TcpFlow("10.96.0.1:80", "10.0.0.2:80"));
  table_.Add(Flow("10.96.0.1:80", "10.0.0.2:80"));
  nft::Flow sctp = Handshake("[fd00::1]:80", "[fd01::2]:80");
  sctp.protocol = nft::TransportProtocol::kSctp;
  table_.Add(sctp);
  StartWithStale({"10.0.0.2:80", "[fd01::2]:80"});
  const Cleanup first = Round(0);
  EXPECT_TRUE(first.handshakes);
  EXPECT_EQ(first.entries, 5u);
  EXPECT_THAT(first.deleted_handshakes, ElementsAre(0, 0));
  const Cleanup second = Round(1);
  EXPECT_TRUE(second.handshakes);
  EXPECT_THAT(second.deleted_handshakes, ElementsAre(1, 1));
  EXPECT_THAT(second.deleted_tcp, ElementsAre(0, 0));
  EXPECT_THAT(Tracked(), ElementsAre("10.96.0.1:80 10.0.0.1:80", "10.96.0.1:80 10.0.0.2:80",
                                     "10.96.0.1:80 10.0.0.2:80"));
  EXPECT_THAT(cleaner_->status().deleted_handshakes, ElementsAre(1, 1));
}

TEST_F(CleanerHandshakeTest, ChangesThatMakeNothingStaleStartNoRound) {
  StartWithStale({});
  EXPECT_TRUE(Round(0).handshakes);
  cleaner_->Update({}, {.added = {{HashOfService("ns/new"), Ip("10.0.0.2")}}});
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53"})}});
  EXPECT_FALSE(Round(1).handshakes);
  cleaner_->TablesRepaired();
  for (size_t number = 2; !Round(number).handshakes; ++number) continue;
  EXPECT_EQ(asked_, 0) << "no handshakes";
}

TEST_F(CleanerHandshakeTest, RoundsAreAtLeastOneWaitApart) {
  const auto start = std::chrono::steady_clock::now();
  handshake_wait_ = std::chrono::milliseconds(300);
  StartWithStale({});
  EXPECT_TRUE(Round(0).handshakes);
  cleaner_->Update({}, {.any = true});
  for (size_t number = 1; !Round(number).handshakes; ++number) continue;
  EXPECT_GE(std::chrono::steady_clock::now() - start, handshake_wait_);
}

TEST_F(CleanerHandshakeTest, TcpFlowsToEndpointsThatAreGoneAreDeleted) {
  StartWithStale({"10.0.0.2:80", "10.0.0.3:80"});
  EXPECT_TRUE(Round(0).handshakes);
  table_.Add(TcpFlow("10.96.0.1:80", "10.0.0.1:80"));
  table_.Add(TcpFlow("10.96.0.1:80", "10.0.0.2:80"));
  table_.Add(TcpFlow("10.96.0.1:80", "10.0.0.3:80"));
  table_.Add(Flow("10.96.0.1:80", "10.0.0.2:80"));
  // 10.0.0.1 has returned, and 10.0.0.3 has left another Service only.
  cleaner_->Update({}, Left("ns/web", "10.0.0.1:80"));
  cleaner_->Update({}, Left("ns/web", "10.0.0.2:80"));
  cleaner_->Update({}, Left("ns/other", "10.0.0.3:80"));
  size_t number = 1;
  size_t services = 0;
  for (; cleaner_->status().deleted_tcp[0] == 0; ++number) services += Round(number).tcp_services;
  EXPECT_GT(services, 0u);
  EXPECT_THAT(Tracked(), ElementsAre("10.96.0.1:80 10.0.0.1:80", "10.96.0.1:80 10.0.0.3:80",
                                     "10.96.0.1:80 10.0.0.2:80"));
  EXPECT_THAT(cleaner_->status().deleted_tcp, ElementsAre(1, 0));
  EXPECT_THAT(cleaner_->status().deleted, ElementsAre(0, 0));
}

// The wait starts again if the endpoint returns and leaves once more.
TEST_F(CleanerHandshakeTest, TheLastDepartureOfAnEndpointCounts) {
  gone_after_ = std::chrono::milliseconds(200);
  StartWithStale({"10.0.0.2:80"});
  EXPECT_TRUE(Round(0).handshakes);
  table_.Add(TcpFlow("10.96.0.1:80", "10.0.0.2:80"));
  cleaner_->Update({}, Left("ns/web", "10.0.0.2:80"));
  table_.OnListed([&] { cleaner_->Update({}, Left("ns/web", "10.0.0.2:80")); });
  EXPECT_THAT(Round(1).deleted_tcp, ElementsAre(0, 0));
  table_.OnListed(nullptr);
  for (size_t number = 2; !Tracked().empty(); ++number) Round(number);
}

TEST_F(CleanerHandshakeTest, TheOldestDeparturesAreForgotten) {
  StartWithStale({});
  EXPECT_TRUE(Round(0).handshakes);
  EndpointChanges changes;
  for (uint32_t i = 0; i < Cleaner::kMaxDepartures + 100; ++i) {
    changes.left.push_back({HashOfService("ns/web"), {Ip("10.0.0.1"), static_cast<uint16_t>(i)}});
  }
  cleaner_->Update({}, changes);
  EXPECT_EQ(Round(1).forgotten_tcp, 100u);
}

TEST_F(CleanerHandshakeTest, TcpFlowsAreKeptUntilTheStateIsComplete) {
  table_.Add(TcpFlow("10.96.0.1:80", "10.0.0.1:80"));
  FindStale({"10.0.0.1:80"});
  Start();
  cleaner_->Update({}, Left("ns/web", "10.0.0.1:80"));
  cleaner_->Update({{"ns/dns", UdpAt("10.96.0.2:53", {})}});
  EXPECT_EQ(table_.listings(), 0);
  cleaner_->StateIsComplete();
  for (size_t number = 0; !Tracked().empty(); ++number) Round(number);
}

// Only a listing that covers nothing else is bounded.
TEST_F(CleanerHandshakeTest, TheListingIsBounded) {
  for (int i = 0; i < 10; ++i) table_.Add(Handshake("10.96.0.1:80", "10.0.0.2:80"));
  max_handshake_entries_ = 4;
  StartWithStale({"10.0.0.2:80"});
  EXPECT_EQ(Round(0).entries, 4u);
  EXPECT_TRUE(Round(0).complete);
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {"10.0.0.1:53"})}});
  for (size_t number = 1; Round(number).entries != 10; ++number) continue;
}

// The function uses objects that are destroyed after Stop().
TEST_F(CleanerHandshakeTest, StopWaitsForACallInProgress) {
  table_.Add(Handshake("10.96.0.1:80", "10.0.0.2:80"));
  std::promise<void> called, go_on;
  std::atomic<bool> returned = false;
  handshake_wait_ = std::chrono::hours(1);
  find_ = [&](std::span<const nft::Flow> flows) {
    called.set_value();
    go_on.get_future().wait_for(svcmap::testing::kHangLimit);
    returned = true;
    return Stale(flows.size(), kNoService);
  };
  StartComplete();
  ASSERT_EQ(called.get_future().wait_for(svcmap::testing::kHangLimit), std::future_status::ready);
  std::thread stopper([&] {
    cleaner_->Stop();
    EXPECT_TRUE(returned);
  });
  go_on.set_value();
  stopper.join();
  EXPECT_THAT(Tracked(), SizeIs(1));
}

// A flow table whose listing never ends.
class EndlessFlowTable : public FakeFlowTable {
 public:
  absl::StatusOr<Listing> ForEach(std::span<const nft::FlowKind>, uint64_t,
                                  const std::function<bool(const nft::Flow&)>& on_flow) override {
    started_.set_value();
    while (on_flow(Flow("10.96.0.9:53", "10.0.0.1:53"))) continue;
    return absl::CancelledError("left");
  }
  bool WaitForStart() {
    return started_.get_future().wait_for(svcmap::testing::kHangLimit) == std::future_status::ready;
  }

 private:
  std::promise<void> started_;
};

TEST(CleanerStopTest, StopLeavesARoundInTheMiddle) {
  EndlessFlowTable table;
  int rounds = 0;
  Cleaner cleaner(table, {.settle = std::chrono::milliseconds(0),
                          .on_round = [&](const Cleanup&) { ++rounds; }});
  cleaner.Start();
  cleaner.StateIsComplete();
  cleaner.Update({{"ns/a", UdpAt("10.96.0.1:53", {})}});
  ASSERT_TRUE(table.WaitForStart());
  cleaner.Stop();
  EXPECT_EQ(rounds, 0);
}

TEST_F(CleanerTest, StopDoesNotWaitForARetry) {
  table_.FailListings(absl::InternalError("no"));
  Start(std::chrono::hours(1));
  cleaner_->StateIsComplete();
  cleaner_->Update({{"ns/a", UdpAt("10.96.0.1:53", {})}});
  Round(0);
  const auto start = std::chrono::steady_clock::now();
  cleaner_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, svcmap::testing::kHangLimit);
}

TEST_F(CleanerTest, UpdatesFromManyThreads) {
  StartComplete();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string endpoint = "10.0.0." + std::to_string(i % 200 + 1) + ":53";
        const std::string destination = "10.96.0." + std::to_string(t + 1) + ":53";
        cleaner_->Update({{"ns/" + std::to_string(t), UdpAt(destination, {endpoint})}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  table_.Add(Flow("10.96.0.1:53", "10.0.0.1:53"));
  cleaner_->Update({{"ns/0", UdpAt("10.96.0.1:53", {})}});
  size_t number = 0;
  while (Round(number).deleted[0] == 0) ++number;
  EXPECT_EQ(Round(number).services, 4u);
  EXPECT_THAT(Tracked(), IsEmpty());
}

}  // namespace
}  // namespace svcmap::proxy
