// A run takes over the tables and the saved objects of the previous run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::IsEmpty;

class AdoptTest : public ::testing::Test {
 protected:
  using Outcome = SyncResult::Outcome;
  using Fault = nft::FakeKernel::Fault;

  AdoptTest() {
    kernel_.SetFaultHook([this](const nft::Transaction& transaction) {
      sent_.push_back(transaction);
      return fault_;
    });
  }

  // Ends the current run, if any, and starts the next one. `lost`: number of transactions that did
  // not reach the disk.
  Received Begin(size_t lost = 0) {
    reconciler_.reset();
    const SavedObjects saved = disk_.Begin(lost);
    reconciler_ = std::make_unique<Reconciler>(kernel_, options_, &disk_);
    const absl::StatusOr<Received> adopted = reconciler_->Adopt(saved);
    EXPECT_OK(adopted);
    if (*adopted == Received::kStored) {
      for (const SavedObject& object : saved.objects) {
        reconciler_->store().Apply(objects_.at({object.kind, object.key, *object.message}), 0);
      }
    }
    sent_.clear();
    return *adopted;
  }
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) {
      if (change.service) objects_[{change.kind, change.key, change.service->message}] = change;
      if (change.slice) objects_[{change.kind, change.key, change.slice->message}] = change;
      reconciler_->store().Apply(change, ++sequence_);
    }
  }
  void RemoveLeftovers() {
    while (!reconciler_->leftovers().empty()) EXPECT_OK(reconciler_->RemoveLeftovers().error);
  }
  void Settle(const std::vector<Change>& changes) {
    Apply(changes);
    while (reconciler_->Pending()) {
      ASSERT_NE(reconciler_->Sync(SIZE_MAX).outcome, Outcome::kFailed);
    }
    RemoveLeftovers();
    EXPECT_EQ(Contents(kernel_, FullTables()), Additions(DesiredRows(*reconciler_)));
    sent_.clear();
  }
  // As if the agent was killed after it has saved the objects and before the commit.
  void SaveWithoutCommit() {
    fault_ = Fault::kReject;
    EXPECT_EQ(reconciler_->Sync(SIZE_MAX).outcome, Outcome::kFailed);
    fault_ = Fault::kNone;
  }
  // Starts the next run and expects that its first plan writes nothing.
  void ExpectNothingToWrite(const std::string& what = "") {
    SCOPED_TRACE(what);
    const Lines before = Contents(kernel_, FullTables());
    const uint64_t revision = reconciler_->revision();
    ASSERT_EQ(Begin(), Received::kStored);
    EXPECT_EQ(reconciler_->Sync(SIZE_MAX).outcome, Outcome::kNothing);
    EXPECT_THAT(sent_, IsEmpty());
    EXPECT_EQ(Contents(kernel_, FullTables()), before);
    EXPECT_FALSE(reconciler_->Pending());
    EXPECT_FALSE(reconciler_->WorkLeft().suspects);
    EXPECT_EQ(reconciler_->revision(), revision);
  }

  nft::FakeKernel kernel_{FullTables()};
  ReconcilerOptions options_ = [] {
    ReconcilerOptions options{.node_name = "n1"};
    options.ruleset.port_ranges = true;
    return options;
  }();
  FakeDisk disk_;
  std::unique_ptr<Reconciler> reconciler_;
  std::map<std::tuple<Kind, std::string, std::string>, Change> objects_;
  std::vector<nft::Transaction> sent_;
  Fault fault_ = Fault::kNone;
  uint64_t sequence_ = 0;
};

// All kinds of rows: they survive the way from desired rows to elements and back.
TEST_F(AdoptTest, WithoutChangesNothingIsWritten) {
  const std::string long_name(60, 'n');
  const struct {
    const char* name;
    std::vector<Change> changes;
  } cases[] = {
      {"nothing", {}},
      {"single port", {AService("shop/web").At("10.96.0.1").Port(80), Slice("shop/web", 3)}},
      {"no endpoints", {AService("shop/none").At("10.96.0.2").Port(80)}},
      {"both families",
       {AService("shop/two").At("10.96.0.3").At("fd00::3").Port(80).Port(53, "dns", Protocol::kUdp),
        Slice("shop/two", 2)}},
      {"truncated comments",
       {AService(long_name + "/" + long_name)
            .At("10.96.0.4")
            .Port(80, "a" + long_name.substr(1, 10))
            .Port(81, "b" + long_name.substr(1, 10)),
        ASlice("shop/long-1", long_name + "/" + long_name)
            .Port(8080, "a" + long_name.substr(1, 10))
            .Port(8081, "b" + long_name.substr(1, 10))
            .Ready("10.2.0.1")}},
      {"affinity",
       {AService("shop/sticky").At("10.96.0.5").Port(80).Affinity(300),
        Slice("shop/sticky", 5, 3)}},
      {"port range",
       {AService("shop/range").At("10.96.0.6").Port(1000).EndPort(2000),
        Slice("shop/range", 2, 4)}},
      {"endpoint that is its own destination",
       {AService("shop/own").At("10.96.0.8").Port(80).External("10.6.0.1"),
        ASlice("shop/own-1", "shop/own").Port(80).Local("10.6.0.1")}},
      {"more than 16 endpoints",
       {AService("shop/many").At("10.96.0.7").Port(80), Slice("shop/many", 100, 5)}},
  };
  Begin();
  for (const auto& c : cases) {
    Settle(c.changes);
    if (HasFailure()) FAIL() << c.name;
    ExpectNothingToWrite(c.name);
  }
}

// No packet needs these rules any more (docs/decisions/0017).
TEST_F(AdoptTest, TheRulesForFormerSelfEndpointsAreDeletedWithoutElements) {
  const auto slice = [] { return ASlice("shop/own-1", "shop/own").Port(80).Ready("10.6.0.2"); };
  Begin();
  Settle({AService("shop/own").At("10.96.0.8").Port(80).External("10.6.0.1"),
          slice().Ready("10.6.0.1")});
  Settle({slice()});
  ASSERT_EQ(Begin(), Received::kStored);
  EXPECT_EQ(reconciler_->Sync(SIZE_MAX).outcome, Outcome::kCommitted);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].repairs().size(), kFamilies.size());
  EXPECT_EQ(sent_[0].element_count(), kMarkerElements);
  ExpectNothingToWrite();
}

// A packet or a record with a number of a previous run must not reach another Service.
TEST_F(AdoptTest, NumbersOfThePreviousRunAreNotReusedAtOnce) {
  Begin();
  Settle({AService("shop/a").At("10.96.0.1").Port(80).Affinity(60), Slice("shop/a", 1),
          AService("shop/b").At("10.96.0.2").Port(80), Slice("shop/b", 1, 2)});
  Settle({NoService("shop/a"), NoService("shop/b")});
  const NextNumbers next = reconciler_->applied().marker().next_numbers;
  EXPECT_GT(next[0][0], 1u);
  Begin();
  Settle({AService("shop/c").At("10.96.0.3").Port(80).Affinity(60), Slice("shop/c", 1, 3),
          AService("shop/d").At("10.96.0.4").Port(80), Slice("shop/d", 1, 4)});
  for (const auto& [key, rows] : reconciler_->applied().services()) {
    for (const Number& number : NumbersOf(rows)) {
      EXPECT_GE(number.value, next[Index(number.pool)][Index(number.family)]);
    }
  }
}

// Elements that other processes have changed lead to more changes, but to no wrong row.
TEST_F(AdoptTest, DamagedTablesAreWrittenRight) {
  const auto damage = [&](const std::function<bool(SetIndex)>& set_matches) {
    for (const Family family : kFamilies) {
      for (uint8_t set = 0; set < kRowSetCount; ++set) {
        if (!set_matches(static_cast<SetIndex>(set))) continue;
        ASSERT_OK_AND_ASSIGN(const auto elements, kernel_.ReadSet({family, set}));
        for (size_t i = 0; i + 1 < elements.size(); i += 2) {
          nft::Element changed = elements[i];
          changed.data = elements[i + 1].data;
          changed.comment = elements[i + 1].comment;
          ASSERT_TRUE(kernel_.ForeignRemoveElement({family, set}, changed.key));
          ASSERT_TRUE(kernel_.ForeignAddElement({.set = {family, set},
                                                 .key = changed.key,
                                                 .data = changed.data,
                                                 .comment = changed.comment}));
        }
      }
    }
  };
  const SetIndex sets[] = {kServiceIps, kEndpoints, kAffinitySlots, kAffinityEndpoints};
  for (const SetIndex damaged : sets) {
    SCOPED_TRACE(damaged);
    Begin();
    Settle({AService("shop/a").At("10.96.0.1").Port(80).Port(81, "x"), Slice("shop/a", 3),
            AService("shop/b").At("10.96.0.2").Port(80).Affinity(60), Slice("shop/b", 3, 2),
            AService("shop/c").At("10.96.0.3").Port(80).Affinity(60), Slice("shop/c", 3, 3),
            AService("shop/d").At("10.96.0.4").Port(80), Slice("shop/d", 3, 4)});
    damage([&](SetIndex set) { return set == damaged; });
    ASSERT_EQ(Begin(), Received::kStored);
    Settle({});
  }
}

// The last batch, which is not saved, has no Ack.
TEST_F(AdoptTest, OnlyTheLastWriteMayBeMissing) {
  for (const size_t lost : {1, 2}) {
    disk_ = FakeDisk();
    for (const Family family : kFamilies) kernel_.ForeignDropTable(family);
    Begin();
    Settle({AService("shop/a").At("10.96.0.1").Port(80)});
    const SavedObjects before = disk_.Begin();
    for (size_t i = 0; i < lost; ++i) Settle({Slice("shop/a", static_cast<int>(i) + 1)});
    const auto next = std::make_unique<Reconciler>(kernel_, options_, &disk_);
    const auto adopted = next->Adopt(before);
    ASSERT_OK(adopted);
    EXPECT_EQ(*adopted, lost == 1 ? Received::kStored : Received::kPreviousRules) << lost;
  }
}

TEST_F(AdoptTest, APartOfTheFirstSnapshotIsNoCompleteState) {
  Begin();
  EXPECT_EQ(reconciler_->Sync(SIZE_MAX, /*partial=*/true).outcome, Outcome::kCommitted);
  EXPECT_EQ(Begin(), Received::kNothing) << "the previous run has only created empty tables";
  Apply({AService("shop/a").At("10.96.0.1").Port(80)});
  EXPECT_EQ(reconciler_->Sync(SIZE_MAX, /*partial=*/true).outcome, Outcome::kCommitted);
  EXPECT_EQ(Begin(), Received::kPartial);
}

TEST_F(AdoptTest, ObjectsAreNotUsedIfSavingHadFailed) {
  Begin();
  Settle({AService("shop/a").At("10.96.0.1").Port(80), Slice("shop/a", 1)});
  disk_.fails = [] { return true; };
  Apply({Slice("shop/a", 2)});
  EXPECT_EQ(reconciler_->Sync(SIZE_MAX).outcome, Outcome::kCommitted);
  EXPECT_FALSE(reconciler_->applied().marker().saved) << "before the Ack";
  EXPECT_EQ(Begin(), Received::kPreviousRules);
  EXPECT_EQ(reconciler_->previous_services(), 1u);

  // The controller sends its snapshot. The disk works again.
  disk_.fails = [] { return false; };
  Settle({AService("shop/a").At("10.96.0.1").Port(80), Slice("shop/a", 3)});
  EXPECT_TRUE(reconciler_->applied().marker().saved);
  ExpectNothingToWrite();
}

TEST_F(AdoptTest, AFailureIsOverWhenEverythingIsSaved) {
  Begin();
  Settle({AService("shop/a").At("10.96.0.1").Port(80), Slice("shop/a", 1)});
  disk_.fails = [] { return true; };
  Apply({Slice("shop/a", 2)});
  EXPECT_EQ(reconciler_->Sync(SIZE_MAX).outcome, Outcome::kCommitted);
  disk_.fails = [] { return false; };
  EXPECT_EQ(reconciler_->Sync(SIZE_MAX).outcome, Outcome::kNothing);
  EXPECT_TRUE(reconciler_->Pending()) << "the marker";
  Settle({});
  ExpectNothingToWrite();
}

TEST_F(AdoptTest, TablesWithoutMarkerAreTablesOfAPreviousRun) {
  Begin();
  Settle({AService("shop/a").At("10.96.0.1").Port(80), Slice("shop/a", 3),
          AService("shop/b").At("10.96.0.2").Port(80), Slice("shop/b", 3, 2)});
  const Lines before = Contents(kernel_, FullTables());
  const auto delete_markers = [&] {
    for (const Family family : kFamilies) {
      ASSERT_TRUE(kernel_.ForeignRemoveElement({family, kMarker}, MarkerKey().bytes()));
    }
  };
  delete_markers();
  ASSERT_EQ(Begin(), Received::kStored);
  EXPECT_EQ(reconciler_->Sync(1).outcome, Outcome::kCommitted);
  EXPECT_EQ(Contents(kernel_, FullTables()), before);
  delete_markers();
  Reconciler without_disk(kernel_, options_);
  const auto adopted = without_disk.Adopt();
  ASSERT_OK(adopted);
  EXPECT_EQ(*adopted, Received::kPreviousRules);
}

TEST_F(AdoptTest, NoAckIfNeitherDiskNorMarkerTellsThatSavingHasFailed) {
  Begin();
  Settle({AService("shop/a").At("10.96.0.1").Port(80), Slice("shop/a", 1)});
  kernel_.SetFaultHook([this](const nft::Transaction& transaction) {
    sent_.push_back(transaction);
    disk_.Break();
    return sent_.size() > 1 ? Fault::kReject : Fault::kNone;
  });
  sent_.clear();
  Apply({Slice("shop/a", 2)});
  SyncResult result = reconciler_->Sync(SIZE_MAX);
  EXPECT_EQ(result.outcome, Outcome::kCommitted);
  EXPECT_FALSE(result.may_answer);
  EXPECT_TRUE(reconciler_->Pending());
  kernel_.SetFaultHook(nullptr);
  result = reconciler_->Sync(SIZE_MAX);
  EXPECT_EQ(result.outcome, Outcome::kCommitted);
  EXPECT_TRUE(result.may_answer);
}

// Packets to the address must not reach former local endpoints until the leftovers are deleted.
TEST_F(AdoptTest, S80TheLastLocalEndpointLeavesWhileSvcmapdIsStopped) {
  const auto service = [] {
    return AService("shop/l").At("10.96.0.1").Port(80).External("192.0.2.9").ExternalLocal();
  };
  ASlice local("shop/l-1", "shop/l");
  ASlice remote("shop/l-1", "shop/l");
  Begin();
  Settle({service(), local.Port(8080).Local("10.1.0.1").Ready("10.1.0.2")});
  Apply({remote.Port(8080).Ready("10.1.0.2").Ready("10.1.0.3")});  // The descriptor stays.
  SaveWithoutCommit();
  ASSERT_EQ(Begin(), Received::kStored);
  EXPECT_EQ(reconciler_->Sync(SIZE_MAX).outcome, Outcome::kCommitted);
  const Lines switched = Operations(sent_.back());
  EXPECT_TRUE(std::ranges::any_of(switched, [](const std::string& line) {
    return line.starts_with("- local-sets");
  })) << ::testing::PrintToString(switched);
}

}  // namespace
}  // namespace svcmap::proxy::test
