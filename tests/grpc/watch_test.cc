// Tests of the events that watchers receive, and of watchers that do not read.
#include <gmock/gmock.h>
#include <grpc/grpc.h>

#include <future>
#include <optional>

#include "proxy/ruleset/table.h"
#include "tests/grpc/server_fixture.h"
#include "tests/support/wait.h"

namespace svcmap::api {
namespace {

using svcmap::testing::AService;
using svcmap::testing::WaitUntil;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;

class WatchTest : public ServerTest {
 protected:
  // Initializes gRPC without a matching shutdown, because the shutdown can take 10 s after a socket
  // buffer was full.
  static void SetUpTestSuite() { grpc_init(); }

  // A watcher that reads one event at a time.
  struct Watching {
    explicit Watching(v1::Control::Stub& stub) {
      SetDeadline(context);
      reader = stub.Watch(&context, {});
    }
    ~Watching() {
      if (finished) return;
      context.TryCancel();
      reader->Finish();
    }
    v1::WatchEvent Read() {
      v1::WatchEvent event;
      EXPECT_TRUE(reader->Read(&event));
      return event;
    }
    // Returns the next event of this kind and skips events of other kinds.
    v1::WatchEvent ReadUntil(v1::WatchEvent::EventCase kind) {
      v1::WatchEvent event;
      while (reader->Read(&event)) {
        if (event.event_case() == kind) return event;
      }
      ADD_FAILURE() << "no event " << kind;
      return {};
    }
    grpc::Status Finish() {
      finished = true;
      for (v1::WatchEvent rest; reader->Read(&rest);) {
      }
      return reader->Finish();
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::WatchEvent>> reader;
    bool finished = false;
  };

  // Waits for the first commit of the loop, which creates the tables.
  void Begin() {
    EXPECT_TRUE(Submit(Web(), [this](const proxy::BatchResult&) { begun_.set_value(); }).ok());
    begun_.get_future().wait();
    Serve();
  }

  // Calls Begin(), and returns a watcher that has read the status.
  Watching& BeginAndWatch() {
    Begin();
    watching_.emplace(*stub_).Read();
    return *watching_;
  }

  // Submits an object as the manifest source does.
  absl::Status Submit(const v1::Object& object, Intake::Done done) {
    return intake_->Submit({}, 1, [&](int) { return ConvertObject(object, intake_->context()); },
                           std::move(done), {});
  }

  // Deletes an element and notifies the loop as the kernel would.
  void Damage() {
    nft::ForeignChange change;
    change.text = "1 element deleted from no-endpoint-services";
    change.process = "nft (pid 7)";
    const nft::SetRef set{Family::kIpv4, proxy::kNoEndpointServices};
    ASSERT_TRUE(loop_->Call([&](proxy::Reconciler&) {
      const auto held = kernel_->ReadSet(set);
      ASSERT_TRUE(held.ok());
      ASSERT_THAT(*held, SizeIs(Ge(1u)));
      const auto key = held->front().key;
      change.elements.push_back({set, {key.begin(), key.end()}});
      ASSERT_TRUE(kernel_->ForeignRemoveElement(set, key));
    }));
    loop_->Repair(change);
  }

  static v1::Object BadService(const std::string& name) {
    return AService(name).ClusterIp("10.96.0.20").Port("http", 70000);
  }

  void TearDown() override {
    watching_.reset();
    ServerTest::TearDown();
  }

  std::promise<void> begun_;
  std::optional<Watching> watching_;
};

TEST_F(WatchTest, FirstComesTheStatusThenEachCommit) {
  Begin();
  Watching watching(*stub_);
  const v1::WatchEvent first = watching.Read();
  ASSERT_TRUE(first.has_status());
  EXPECT_EQ(first.status().revision(), GetStatus().revision());
  EXPECT_EQ(first.status().node_name(), "n1");
  EXPECT_EQ(first.status().state(), v1::SERVING);
  EXPECT_GE(first.number(), 1u);  // The event contains the number of the preceding commit.
  EXPECT_EQ(first.lost(), 0u);
  EXPECT_GT(first.time().seconds(), 0);

  Apply({Web("shop/a", "10.96.0.11"), Web("shop/b", "10.96.0.12")});
  const v1::WatchEvent second = watching.Read();
  ASSERT_TRUE(second.has_commit()) << second.ShortDebugString();
  EXPECT_EQ(second.commit().revision(), first.status().revision() + 1);
  EXPECT_EQ(second.commit().services(), 2u);
  EXPECT_EQ(second.commit().elements(), GetStatus().last_commit().elements());
  EXPECT_TRUE(second.commit().has_duration());
  EXPECT_FALSE(second.commit().tables_written());
  EXPECT_EQ(second.number(), first.number() + 1);
  EXPECT_GE(second.time().seconds(), first.time().seconds());
}

TEST_F(WatchTest, TablesRewrittenCompletelyAreReported) {
  Watching& watching = BeginAndWatch();
  ASSERT_TRUE(kernel_->ForeignAddObject(Family::kIpv4, "hits"));
  ASSERT_TRUE(loop_->Call([](proxy::Reconciler& reconciler) { reconciler.Invalidate(); }));
  EXPECT_TRUE(watching.Read().commit().tables_written());
}

TEST_F(WatchTest, WhatChangesNothingIsNoEvent) {
  Begin();
  Watching watching(*stub_);
  const uint64_t number = watching.Read().number();
  EXPECT_EQ(Apply({Web()}).outcome(), v1::UNCHANGED);
  Apply({Web("shop/other", "10.96.0.11")});
  EXPECT_EQ(watching.Read().number(), number + 1);
}

TEST_F(WatchTest, FindingsOfObjectsThatComeIn) {
  StartLoop({.objects = 3});
  Watching& watching = BeginAndWatch();
  Apply({BadService("shop/bad")});
  const v1::WatchEvent event = watching.Read();
  ASSERT_THAT(event.findings().results(), SizeIs(1)) << event.ShortDebugString();
  EXPECT_EQ(event.findings().results(0).severity(), v1::REFUSED);
  EXPECT_THAT(event.findings().results(0).message(),
              HasSubstr("Service shop/bad rejected: spec.ports[0].port: Invalid value: 70000"));
  EXPECT_EQ(event.findings().more(), 0u);
  // The loop reports this finding, because the objects exceed --max-objects.
  Apply({Web("a/one", "10.96.0.11"), Web("a/two", "10.96.0.12"), Web("a/more", "10.96.0.13")});
  const v1::WatchEvent over = watching.ReadUntil(v1::WatchEvent::kFindings);
  EXPECT_THAT(over.findings().results(0).message(), HasSubstr("--max-objects 3"));
}

TEST_F(WatchTest, FindingsOfWhatIsProgrammedAreReportedOnce) {
  Watching& watching = BeginAndWatch();
  Apply({AService("a/first").ClusterIp("10.96.0.11").Port("http", 80).CreatedAt(1),
         AService("a/second").ClusterIp("10.96.0.11").Port("http", 80).CreatedAt(2)});
  EXPECT_TRUE(watching.Read().has_commit());
  const v1::WatchEvent event = watching.Read();
  ASSERT_THAT(event.findings().results(), SizeIs(1)) << event.ShortDebugString();
  EXPECT_EQ(event.findings().results(0).severity(), v1::WARNING);
  EXPECT_THAT(event.findings().results(0).message(), HasSubstr("already used by Service a/first"));
  Apply({Web("a/third", "10.96.0.12")});
  EXPECT_TRUE(watching.Read().has_commit());
}

TEST_F(WatchTest, OfManyFindingsTheFirstAreReportedAndTheOthersCounted) {
  Watching& watching = BeginAndWatch();
  testing::Objects objects;
  for (int i = 0; i < 150; ++i) objects.push_back(BadService("shop/bad-" + std::to_string(i)));
  Apply(objects);
  const v1::WatchEvent event = watching.Read();
  EXPECT_THAT(event.findings().results(), SizeIs(100));
  EXPECT_EQ(event.findings().more(), 50u);
}

TEST_F(WatchTest, RepairsAreReported) {
  Watching& watching = BeginAndWatch();
  Damage();
  const v1::WatchEvent event = watching.Read();
  ASSERT_TRUE(event.has_repair()) << event.ShortDebugString();
  EXPECT_EQ(event.repair().outcome(), v1::WatchRepair::REPAIRED);
  EXPECT_EQ(event.repair().damage(), "1 element deleted from no-endpoint-services");
  EXPECT_EQ(event.repair().process(), "nft (pid 7)");
  EXPECT_EQ(event.repair().elements(), 1u);
  EXPECT_EQ(event.repair().chains(), 0u);
  EXPECT_TRUE(event.repair().has_duration());
  EXPECT_EQ(event.repair().error(), "");
}

TEST_F(WatchTest, FailedRepairIsReportedWithWhatTheKernelSaid) {
  Watching& watching = BeginAndWatch();
  rejecting_ = true;
  Damage();
  const v1::WatchEvent event = watching.ReadUntil(v1::WatchEvent::kRepair);
  EXPECT_EQ(event.repair().outcome(), v1::WatchRepair::NOT_YET);
  EXPECT_NE(event.repair().error(), "");
  EXPECT_FALSE(event.repair().has_duration());
}

TEST_F(WatchTest, FailedSyncAndTheRecoveryFromIt) {
  Watching& watching = BeginAndWatch();
  rejecting_ = true;
  EXPECT_EQ(Apply({Web("shop/a", "10.96.0.11")}).outcome(), v1::FAILED);
  const v1::WatchEvent failed = watching.Read();
  ASSERT_TRUE(failed.has_sync_failed()) << failed.ShortDebugString();
  EXPECT_NE(failed.sync_failed().error(), "");
  rejecting_ = false;
  const uint64_t committed = watching.ReadUntil(v1::WatchEvent::kCommit).number();
  const v1::WatchEvent recovered = watching.Read();
  ASSERT_TRUE(recovered.has_recovered()) << recovered.ShortDebugString();
  EXPECT_EQ(recovered.recovered().revision(), GetStatus().revision());
  EXPECT_EQ(recovered.recovered().failures(), committed - failed.number());
  EXPECT_GT(recovered.recovered().after().nanos(), 0);
}

TEST_F(WatchTest, ControllersComeAreReplacedAreFencedAndLeave) {
  Watching& watching = BeginAndWatch();
  Stream first(*stub_, "a", 7);
  v1::WatchController event = watching.Read().controller();
  EXPECT_EQ(event.what(), v1::WatchController::CAME);
  EXPECT_EQ(event.name(), "a");
  EXPECT_EQ(event.epoch(), 7u);
  auto second = std::make_unique<Stream>(*stub_);
  ASSERT_TRUE(second->Open("b", 8));
  event = watching.Read().controller();
  EXPECT_EQ(event.what(), v1::WatchController::REPLACED);
  EXPECT_EQ(event.name(), "a");
  EXPECT_EQ(event.reason(), "b");
  event = watching.Read().controller();
  EXPECT_EQ(event.what(), v1::WatchController::CAME);
  EXPECT_EQ(event.name(), "b");
  Stream third(*stub_);
  EXPECT_FALSE(third.Open("a", 7));
  event = watching.Read().controller();
  EXPECT_EQ(event.what(), v1::WatchController::FENCED);
  EXPECT_EQ(event.name(), "a");
  EXPECT_EQ(event.epoch(), 7u);
  EXPECT_THAT(event.reason(), HasSubstr("open.epoch 7 is lower than 8, the epoch of leader b"));
  second.reset();
  event = watching.Read().controller();
  EXPECT_EQ(event.what(), v1::WatchController::LEFT);
  EXPECT_EQ(event.name(), "b");
  EXPECT_EQ(event.reason(), "");
}

TEST_F(WatchTest, WhoDoesNotReadLosesTheOldestAndIsReportedHowMany) {
  Begin();
  const auto stub = v1::Control::NewStub(ChannelWithSmallBuffers());
  Watching sleeper(*stub), reader(*stub_);
  const uint64_t begin = sleeper.Read().number();
  reader.Read();
  // The object is so large that a few events exhaust the flow control window.
  v1::WatchController large;
  large.set_reason(std::string(20'000, 'x'));
  constexpr uint64_t kEvents = 4 * WatchHub::kKept;
  constexpr uint64_t kAtOnce = WatchHub::kKept / 2;
  for (uint64_t reported = 0; reported < kEvents; reported += kAtOnce) {
    for (uint64_t i = 0; i < kAtOnce; ++i) hub_.PublishController(large);
    for (uint64_t i = 0; i < kAtOnce; ++i) EXPECT_EQ(reader.Read().lost(), 0u);
  }
  EXPECT_EQ(Apply({Web("shop/a", "10.96.0.11")}).outcome(), v1::COMMITTED);

  uint64_t lost = 0, read = 0, since_lost = 0, last = begin;
  while (last < begin + kEvents + 1) {
    const v1::WatchEvent event = sleeper.Read();
    ASSERT_GT(event.number(), last);
    EXPECT_EQ(event.number(), last + event.lost() + 1);
    if (event.lost() > 0) since_lost = 0;
    last = event.number();
    lost += event.lost();
    ++read;
    ++since_lost;
  }
  EXPECT_EQ(lost + read, kEvents + 1);
  EXPECT_THAT(lost, Ge(2 * WatchHub::kKept));
  EXPECT_EQ(since_lost, WatchHub::kKept);  // A full buffer contains kKept events.
}

TEST_F(WatchTest, OneWatcherMoreIsRejectedUntilAnotherHasLeft) {
  limits_.max_watchers = 1;
  Begin();
  auto watching = std::make_unique<Watching>(*stub_);
  watching->Read();
  const grpc::Status status = Watching(*stub_).Finish();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(),
            "no more than --max-watchers 1 watchers at a time; stream rejected");
  watching.reset();
  // The client may see the end of the stream before the server has released the stream.
  EXPECT_TRUE(WaitUntil([&] {
    Watching next(*stub_);
    v1::WatchEvent event;
    return next.reader->Read(&event);
  }));
}

TEST_F(WatchTest, AgentThatStopsEndsTheStream) {
  Watching& watching = BeginAndWatch();
  hub_.End();
  for (const grpc::Status& status : {watching.Finish(), Watching(*stub_).Finish()}) {
    EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(status.error_message(), "the agent is stopping");
  }
}

TEST_F(WatchTest, WatcherThatDoesNotReadDoesNotHoldUpTheEnd) {
  Begin();
  Watching sleeper(*stub_);
  sleeper.Read();
  v1::WatchController large;
  large.set_reason(std::string(1'000'000, 'x'));
  for (int i = 0; i < 10; ++i) hub_.PublishController(large);
  loop_->Stop();
  hub_.End();
  const auto begin = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_THAT(std::chrono::steady_clock::now() - begin, Le(std::chrono::seconds(5)));
  EXPECT_FALSE(sleeper.Finish().ok());
}

}  // namespace
}  // namespace svcmap::api
