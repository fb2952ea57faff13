#include "api/source/push.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "api/convert/error_info.h"
#include "api/source/findings.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"
#include "tests/unit/source/fake_agent.h"

namespace svcmap::source::test {
namespace {

using ::svcmap::testing::WaitUntil;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;

// `metadata` is the metadata of the object in `change`.
Item ItemOf(const v1::Change& change, v1::ObjectMeta& metadata, const std::string& name) {
  metadata.set_namespace_("shop");
  metadata.set_name(name);
  Item item;
  item.key = "shop/" + name;
  item.change = change.SerializeAsString();
  return item;
}

Item AService(const std::string& name, const std::string& ip) {
  v1::Change change;
  v1::Service& service = *change.mutable_service();
  service.mutable_spec()->set_cluster_ip(ip);
  return ItemOf(change, *service.mutable_metadata(), name);
}

Item ASlice(const std::string& name, int endpoints) {
  v1::Change change;
  v1::EndpointSlice& slice = *change.mutable_endpoint_slice();
  for (int n = 0; n < endpoints; ++n) slice.add_endpoints()->add_addresses("10.244.1.11");
  return ItemOf(change, *slice.mutable_metadata(), name);
}

grpc::Status Replaced(const std::string& name, const std::string& instance) {
  const std::string text = "replaced by " + name + " (" + instance + ")";
  return {grpc::StatusCode::ABORTED, text,
          api::EncodeErrorDetails(grpc::StatusCode::ABORTED, text,
                                  {v1::REPLACED, {{"name", name}, {"instance", instance}}})};
}

class PushTest : public ::testing::Test {
 protected:
  // Keeps gRPC initialized for all tests, because a shutdown after each test can take 10 s.
  static void SetUpTestSuite() { grpc_init(); }

  void MakeAgent(uint64_t max_batch_bytes = 1 << 24) {
    agent_ = std::make_unique<FakeAgent>(folder_.path() + "/agent.sock", max_batch_bytes);
  }

  void Complete(std::vector<Item> services) {
    for (const Resource resource : kResources) {
      mirror_.Replace(resource, resource == Resource::kServices ? services : std::vector<Item>());
    }
  }
  void Upsert(const std::string& name, const std::string& ip) {
    mirror_.Upsert(Resource::kServices, AService(name, ip));
  }
  void Remove(const std::string& name) { mirror_.Remove(Resource::kServices, "shop/" + name); }

  void StartPush() { StartPush(mirror_, "unix:" + folder_.path() + "/agent.sock"); }
  void StartPush(Mirror& mirror, const std::string& target) {
    PushOptions options;
    options.name = "svcmap-kube";
    options.target = target;
    options.instance = "node-1";
    options.first_retry = std::chrono::milliseconds(5);
    options.last_retry = std::chrono::milliseconds(20);
    options.slow_retry = std::chrono::hours(1);
    options.snapshot_retry = snapshot_retry_;
    options.on_programmed = [this] { ++programmed_; };
    options.on_finding = [this](const Finding& finding) {
      const std::lock_guard lock(findings_mutex_);
      findings_.push_back(finding);
    };
    push_ = std::make_unique<Push>(options, mirror);
  }
  // Starts a Push with these Services, and waits until the agent has acknowledged them.
  void Sync(std::vector<Item> services) {
    if (!agent_) MakeAgent();
    Complete(std::move(services));
    StartPush();
    ASSERT_TRUE(Settled());
  }
  // Starts a Push with one Service, and waits until the agent has acknowledged position 7.
  void SyncAtPosition7() {
    MakeAgent();
    Mirror::Lists lists;
    lists[0] = {AService("a", "1")};
    mirror_.ReplaceAll(lists, 7);
    StartPush();
    ASSERT_TRUE(WaitUntil([this] { return push_->facts().position == 7; }));
  }
  // Waits until the agent has acknowledged all batches.
  bool Settled() {
    return WaitUntil([this] {
      const PushFacts facts = push_->facts();
      return facts.synced && facts.in_flight == 0 && mirror_.SentPosition();
    });
  }

  std::chrono::milliseconds snapshot_retry_ = std::chrono::hours(1);
  testing::TemporaryFolder folder_ = *testing::TemporaryFolder::Make();
  std::unique_ptr<FakeAgent> agent_;
  Mirror mirror_;
  std::atomic<int> programmed_ = 0;  // Calls of on_programmed.
  std::mutex findings_mutex_;
  std::vector<Finding> findings_;
  std::unique_ptr<Push> push_;
};

TEST_F(PushTest, SendsEverythingAndThenWhatChanges) {
  MakeAgent();
  StartPush();
  Complete({AService("a", "1"), AService("b", "2")});
  ASSERT_TRUE(agent_->AwaitStored({"a=1", "b=2"}));
  ASSERT_TRUE(Settled());
  const v1::Open open = agent_->seen().opens.at(0);
  EXPECT_EQ(open.name() + "/" + open.instance(), "svcmap-kube/node-1");
  EXPECT_EQ(open.protocol_version(), 2u);
  EXPECT_EQ(agent_->seen().snapshots_ended, 1);

  Upsert("a", "3");
  Remove("b");
  Upsert("c", "4");
  EXPECT_TRUE(agent_->AwaitStored({"a=3", "c=4"}));
  EXPECT_EQ(agent_->seen().snapshots_begun, 1);
}

TEST_F(PushTest, S333_SaysNothingBeforeEverythingWasListedOnce) {
  MakeAgent();
  agent_->Hold("a", "1");
  agent_->Hold("web-1", "");
  StartPush();
  mirror_.Replace(Resource::kServices, {AService("a", "1")});
  mirror_.Replace(Resource::kNode, {});
  mirror_.Replace(Resource::kServiceCidrs, {});
  const std::unique_ptr<Push> early = std::move(push_);

  // Send three snapshots to another agent. Meanwhile, `early` could have sent a snapshot if `early`
  // had not waited for the EndpointSlices.
  FakeAgent other(folder_.path() + "/other.sock");
  for (int synced = 1; synced <= 3; ++synced) {
    Mirror mirror;
    for (const Resource resource : kResources) mirror.Replace(resource, {});
    StartPush(mirror, other.target());
    EXPECT_TRUE(other.Await([&](const auto& seen) { return seen.snapshots_ended == synced; }));
    push_.reset();
  }
  EXPECT_THAT(agent_->seen().opens, SizeIs(0));

  Item slice;
  slice.key = "shop/web-1";
  v1::Change change;
  change.mutable_endpoint_slice()->mutable_metadata()->set_namespace_("shop");
  change.mutable_endpoint_slice()->mutable_metadata()->set_name("web-1");
  slice.change = change.SerializeAsString();
  mirror_.Replace(Resource::kEndpointSlices, {slice});
  EXPECT_TRUE(agent_->Await([](const auto& seen) { return seen.snapshots_ended == 1; }));
  EXPECT_EQ(agent_->seen().held, (std::set<std::string>{"a=1", "web-1="}));
  EXPECT_EQ(agent_->seen().vanished, 0u);
}

TEST_F(PushTest, GoesOnWhereItWas) {
  ASSERT_NO_FATAL_FAILURE(Sync({AService("a", "1")}));
  agent_->Stop();
  ASSERT_TRUE(WaitUntil([this] { return !push_->facts().connected; }));
  Upsert("b", "2");
  Remove("a");
  agent_->Start();
  EXPECT_TRUE(agent_->AwaitStored({"b=2"}));
  EXPECT_EQ(agent_->seen().resumed, 1);
  EXPECT_EQ(agent_->seen().snapshots_begun, 1);
  EXPECT_EQ(push_->facts().last_error, "");
}

TEST_F(PushTest, AfterWhatWasNotAckedComesASnapshot) {
  ASSERT_NO_FATAL_FAILURE(Sync({AService("a", "1"), AService("b", "2")}));
  agent_->HoldAcks();
  Upsert("a", "3");
  ASSERT_TRUE(agent_->AwaitStored({"a=3", "b=2"}));
  agent_->BreakStream();
  Remove("b");
  agent_->ReleaseAcks();
  EXPECT_TRUE(agent_->Await([](const auto& seen) {
    return seen.snapshots_ended == 2 && seen.held == std::set<std::string>{"a=3"};
  }));
  EXPECT_EQ(agent_->seen().opens.at(1).state_token(), "");
}

TEST_F(PushTest, AnAgentWithoutStateReceivesEverything) {
  ASSERT_NO_FATAL_FAILURE(Sync({AService("a", "1")}));
  agent_->Stop();
  agent_->Forget();
  ASSERT_TRUE(WaitUntil([this] { return !push_->facts().last_error.empty(); }));
  EXPECT_THAT(push_->facts().last_error, HasSubstr("svcmapd"));
  Upsert("b", "2");
  agent_->Start();
  EXPECT_TRUE(agent_->AwaitStored({"a=1", "b=2"}));
  EXPECT_NE(agent_->seen().opens.at(1).state_token(), "");
}

TEST_F(PushTest, ChangesOfOneObjectBecomeOneWhileTheAgentIsBehind) {
  ASSERT_NO_FATAL_FAILURE(Sync({AService("a", "0")}));
  agent_->HoldAcks();
  for (int i = 1; i <= 1000; ++i) Upsert("a", std::to_string(i));
  ASSERT_TRUE(WaitUntil([this] { return push_->facts().in_flight >= 1; }));
  EXPECT_LE(push_->facts().in_flight, 8u);
  agent_->ReleaseAcks();
  EXPECT_TRUE(agent_->AwaitStored({"a=1000"}));
  EXPECT_LE(agent_->seen().batches.size(), 1 + 8 + 8u);
}

TEST_F(PushTest, WhatIsLargerThanAMessageMayBeIsLeftOut) {
  const svcmap::testing::LogCapture log;
  MakeAgent(4096);
  Complete({AService("a", "1"), AService("large", std::string(5000, 'x'))});
  StartPush();
  ASSERT_TRUE(agent_->AwaitStored({"a=1"}));
  ASSERT_TRUE(Settled());
  EXPECT_EQ(push_->facts().rejected, 1u);
  EXPECT_EQ(log.Count("Service shop/large not sent: "), 1u);
  Upsert("large", "2");
  EXPECT_TRUE(agent_->AwaitStored({"a=1", "large=2"}));
  ASSERT_TRUE(Settled());
  EXPECT_EQ(push_->facts().rejected, 0u);
}

TEST_F(PushTest, ASliceThatIsTooLargeKeepsItsEarlierVersionInSnapshots) {
  const svcmap::testing::LogCapture log;
  MakeAgent(4096);
  Complete({AService("a", "1")});
  mirror_.Upsert(Resource::kEndpointSlices, ASlice("slice", 1));
  StartPush();
  ASSERT_TRUE(agent_->AwaitStored({"a=1", "slice="}));
  mirror_.Upsert(Resource::kEndpointSlices, ASlice("slice", 500));
  ASSERT_TRUE(Settled());
  EXPECT_EQ(push_->facts().rejected, 1u);
  agent_->BreakStream();
  ASSERT_TRUE(agent_->Await([](const auto& seen) { return seen.snapshots_ended == 2; }));
  ASSERT_TRUE(Settled());
  EXPECT_EQ(agent_->seen().held, (std::set<std::string>{"a=1", "slice="}));
  EXPECT_EQ(agent_->seen().vanished, 0u);
  EXPECT_EQ(push_->facts().rejected, 1u);
  EXPECT_EQ(log.Count("EndpointSlice shop/slice not sent: "), 1u);
}

TEST_F(PushTest, ARejectionIsLoggedOnceWhileItPersists) {
  const svcmap::testing::LogCapture log;
  MakeAgent();
  agent_->Reject("bad", "Service shop/bad refused: why");
  ASSERT_NO_FATAL_FAILURE(Sync({AService("a", "1"), AService("bad", "2")}));
  agent_->BreakStream();
  // After a reconnect, the rejected object is sent again, because the agent may accept it now.
  ASSERT_TRUE(agent_->Await([](const auto& seen) { return seen.snapshots_ended == 2; }));
  ASSERT_TRUE(Settled());
  Upsert("bad", "3");
  ASSERT_TRUE(Settled());
  EXPECT_EQ(push_->facts().rejected, 1u);
  EXPECT_EQ(log.Count("Service shop/bad refused: why"), 1u);

  agent_->Reject("bad", "");
  Upsert("bad", "4");
  ASSERT_TRUE(agent_->AwaitStored({"a=1", "bad=4"}));
  ASSERT_TRUE(Settled());
  EXPECT_EQ(push_->facts().rejected, 0u);
  agent_->Reject("bad", "Service shop/bad refused: why");
  Upsert("bad", "5");
  ASSERT_TRUE(WaitUntil([this] { return push_->facts().rejected == 1; }));
  EXPECT_EQ(log.Count("Service shop/bad refused: why"), 2u);
}

TEST_F(PushTest, WhatWasRejectedIsSentAgainOnTheSameStream) {
  MakeAgent();
  agent_->Reject("b", "Service shop/b refused: no room");
  Complete({AService("a", "1"), AService("b", "2")});
  snapshot_retry_ = std::chrono::milliseconds(10);
  StartPush();
  ASSERT_TRUE(agent_->Await([](const auto& seen) { return seen.snapshots_ended >= 2; }));
  agent_->Reject("b", "");
  EXPECT_TRUE(agent_->AwaitStored({"a=1", "b=2"}));
  ASSERT_TRUE(WaitUntil([this] { return push_->facts().rejected == 0; }));
  ASSERT_TRUE(Settled());

  agent_->Reject("c", "Service shop/c refused: no room");
  Upsert("c", "3");
  ASSERT_TRUE(WaitUntil([this] { return push_->facts().rejected == 1; }));
  agent_->Reject("c", "");
  EXPECT_TRUE(agent_->AwaitStored({"a=1", "b=2", "c=3"}));
  EXPECT_THAT(agent_->seen().opens, SizeIs(1));
}

TEST_F(PushTest, WhoWasReplacedDoesNotChaseTheOther) {
  ASSERT_NO_FATAL_FAILURE(Sync({AService("a", "1")}));
  // A delayed Open of the same controller replaced the stream, so the controller immediately
  // reconnects once.
  agent_->EndWithNext(Replaced("svcmap-kube", "node-1"));
  Upsert("a", "2");
  ASSERT_TRUE(agent_->AwaitStored({"a=2"}));
  agent_->EndWithNext(Replaced("other", "node-2"));
  Upsert("a", "3");
  ASSERT_TRUE(WaitUntil([this] { return push_->facts().failures == 2; }));
  EXPECT_THAT(push_->facts().last_error,
              HasSubstr("replaced by other (node-2); two controllers use"));
  EXPECT_FALSE(push_->facts().connected);
  push_.reset();  // The destructor returns without waiting for the next retry.
  EXPECT_THAT(agent_->seen().opens, SizeIs(2));
}

TEST_F(PushTest, WhoIsReplacedWhileItWritesIsReportedSo) {
  MakeAgent();
  agent_->ReadNothing();
  std::vector<Item> services;
  for (int i = 0; i < 1500; ++i) {
    services.push_back(AService("s" + std::to_string(i), std::string(4000, 'x')));
  }
  for (int round = 0; round < 4 && !HasFailure(); ++round) {
    Mirror mirror;
    for (const Resource resource : kResources) {
      mirror.Replace(resource, resource == Resource::kServices ? services : std::vector<Item>());
    }
    StartPush(mirror, agent_->target());
    // The batches exceed the limit for bytes in flight, so each batch waits for the previous Ack.
    EXPECT_TRUE(WaitUntil([this] { return push_->facts().batches >= 2; }));
    agent_->EndWithNext(Replaced("other", "node-2"));
    EXPECT_TRUE(WaitUntil([this] { return push_->facts().failures > 0; }));
    EXPECT_THAT(push_->facts().last_error, HasSubstr("replaced by other (node-2)"));
    push_.reset();
    EXPECT_THAT(agent_->seen().opens, SizeIs(round + 1));
  }
}

TEST_F(PushTest, ThePositionFollowsTheAcks) {
  ASSERT_NO_FATAL_FAILURE(SyncAtPosition7());
  mirror_.Apply({}, 8);  // Changes no object.
  EXPECT_EQ(push_->facts().position, 8u);
  agent_->HoldAcks();
  mirror_.Apply({{Resource::kServices, AService("b", "2")}}, 9);
  ASSERT_TRUE(agent_->AwaitStored({"a=1", "b=2"}));
  EXPECT_EQ(push_->facts().position, 8u);
  agent_->ReleaseAcks();
  EXPECT_TRUE(WaitUntil([this] { return push_->facts().position == 9; }));
}

// svcmapd sends no second Ack when it has committed the changes, so a snapshot asks for it.
TEST_F(PushTest, ThePositionStaysWhileCommitsFail) {
  snapshot_retry_ = std::chrono::milliseconds(10);
  ASSERT_NO_FATAL_FAILURE(SyncAtPosition7());
  agent_->SetOutcome(v1::FAILED);
  mirror_.Apply({{Resource::kServices, AService("b", "2")}}, 8);
  mirror_.Apply({}, 9);
  ASSERT_TRUE(agent_->Await([](const auto& seen) { return seen.snapshots_ended >= 3; }));
  EXPECT_EQ(push_->facts().position, 7u);
  agent_->SetOutcome(v1::COMMITTED);
  EXPECT_TRUE(WaitUntil([this] { return push_->facts().position == 9; }));
}

// svcmapd sends no second Ack when another client accepts the removals.
TEST_F(PushTest, HeldRemovalsAreAskedForAgain) {
  MakeAgent();
  agent_->HoldRemovals("29 of 30 Services");
  snapshot_retry_ = std::chrono::milliseconds(10);
  Complete({AService("a", "1")});
  StartPush();
  ASSERT_TRUE(agent_->Await([](const auto& seen) { return seen.snapshots_ended >= 2; }));
  EXPECT_EQ(push_->facts().held, "29 of 30 Services");
  agent_->HoldRemovals("");
  EXPECT_TRUE(WaitUntil([this] { return push_->facts().held.empty(); }));
  EXPECT_THAT(agent_->seen().opens, SizeIs(1));
}

TEST_F(PushTest, NewResultsAreReported) {
  MakeAgent();
  agent_->Reject("a", "not good");
  ASSERT_NO_FATAL_FAILURE(Sync({AService("a", "1")}));
  const std::lock_guard lock(findings_mutex_);
  ASSERT_THAT(findings_, SizeIs(1));
  EXPECT_EQ(findings_[0].kind, v1::KIND_SERVICE);
  EXPECT_EQ(findings_[0].name_space + "/" + findings_[0].name, "shop/a");
  EXPECT_TRUE(findings_[0].rejected);
  EXPECT_EQ(findings_[0].text, "not good");
}

TEST_F(PushTest, ObjectsAreProgrammedOnceTheKernelHasASnapshot) {
  MakeAgent();
  agent_->SetOutcome(v1::FAILED);
  ASSERT_NO_FATAL_FAILURE(Sync({AService("a", "1")}));
  EXPECT_EQ(programmed_, 0);
  agent_->SetOutcome(v1::COMMITTED);
  Upsert("a", "2");  // svcmapd commits the failed changes together with these changes.
  EXPECT_TRUE(WaitUntil([this] { return programmed_ == 1; }));
  Upsert("a", "3");
  ASSERT_TRUE(agent_->AwaitStored({"a=3"}));
  ASSERT_TRUE(Settled());
  EXPECT_EQ(programmed_, 1);
}

TEST_F(PushTest, ALargeListDuringASnapshotStartsANewSnapshot) {
  MakeAgent(4096);
  Mirror::Lists lists;
  for (int i = 0; i < 1000; ++i) lists[0].push_back(AService("s" + std::to_string(i), "1"));
  mirror_.ReplaceAll(lists, 1);
  agent_->HoldAcks();
  StartPush();
  ASSERT_TRUE(agent_->Await([](const auto& seen) { return seen.batches.size() == 8; }));
  lists[0].resize(500);
  mirror_.ReplaceAll(lists, 2);
  agent_->ReleaseAcks();
  EXPECT_TRUE(agent_->Await([](const auto& seen) { return seen.snapshots_ended == 1; }));
  EXPECT_EQ(agent_->seen().held.size(), 500u);
  EXPECT_THAT(agent_->seen().opens, SizeIs(2));
  EXPECT_TRUE(WaitUntil([this] { return push_->facts().position == 2; }));
}

TEST_F(PushTest, ComesBeforeTheAgentAndLeavesAtOnce) {
  StartPush();
  Complete({AService("a", "1")});
  ASSERT_TRUE(WaitUntil([this] { return push_->facts().failures >= 2; }));
  EXPECT_THAT(push_->facts().last_error, HasSubstr("No such file or directory"));
  MakeAgent();
  ASSERT_TRUE(agent_->AwaitStored({"a=1"}));
  agent_->HoldAcks();
  Upsert("a", "2");
  ASSERT_TRUE(agent_->AwaitStored({"a=2"}));
  push_.reset();
  EXPECT_EQ(agent_->seen().held, std::set<std::string>{"a=2"});
}

v1::Ack AckWith(size_t first, size_t count, v1::Severity severity) {
  v1::Ack ack;
  for (size_t i = first; i < first + count; ++i) {
    v1::ObjectResult& result = *ack.add_results();
    result.set_kind(v1::KIND_SERVICE);
    result.set_name(absl::StrCat("s", i));
    result.set_severity(severity);
    result.set_message("why");
  }
  return ack;
}

TEST(FindingsTest, DroppedWarningsAreNoRejections) {
  Findings findings;
  EXPECT_EQ(findings.Take(AckWith(0, Findings::kMaxObjects + 2, v1::WARNING), {}).size(),
            Findings::kMaxObjects + 1);  // Logs once that more are dropped.
  EXPECT_FALSE(findings.any_rejected());
}

TEST(FindingsTest, DroppedRejectionsCountUntilTheNextSnapshot) {
  Findings findings;
  findings.Take(AckWith(0, Findings::kMaxObjects, v1::WARNING), {});
  findings.Take(AckWith(Findings::kMaxObjects, 1, v1::REFUSED), {});
  EXPECT_EQ(findings.rejected(), 0u);
  EXPECT_TRUE(findings.any_rejected());
  findings.BeginSnapshot();
  EXPECT_FALSE(findings.any_rejected());
}

}  // namespace
}  // namespace svcmap::source::test
