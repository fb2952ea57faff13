// A reconciler with saved state. Tests start one run after another.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy::test {

class SavedTest : public ::testing::Test {
 protected:
  using Fault = nft::FakeKernel::Fault;
  using Outcome = SyncResult::Outcome;

  SavedTest() {
    folder_ = ::testing::TempDir() + "/saved-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    kernel_.SetFaultHook([this](const nft::Transaction& transaction) {
      sent_.push_back(transaction);
      return fault_;
    });
  }
  ~SavedTest() override {
    End();
    std::filesystem::remove_all(folder_);
  }

  // Ends the current run, if any. Starts the next run with the saved objects in the store.
  AdoptedState Begin() {
    End();
    SavedState saved;
    auto log = StateLog::Open(folder_, PosixFiles(), &saved, {.own_thread = false});
    EXPECT_OK(log);
    log_ = *std::move(log);
    reconciler_ = std::make_unique<Reconciler>(kernel_, options_, log_.get());
    saved_objects_ = saved.objects.size();
    const absl::StatusOr<AdoptedState> beginning = reconciler_->Adopt(saved);
    EXPECT_OK(beginning);
    log_->Work();
    if (*beginning != AdoptedState::kNothing && *beginning != AdoptedState::kUnknown) {
      for (const Change& change : objects_) reconciler_->store().Apply(change, 0);
    }
    sent_.clear();
    return *beginning;
  }
  void End() {
    reconciler_.reset();
    log_.reset();
  }
  // Applies changes to the store. objects_ keeps all changes for the next run.
  void Notify(const std::vector<Change>& changes) {
    objects_.insert(objects_.end(), changes.begin(), changes.end());
    for (const Change& change : changes) reconciler_->store().Apply(change, ++sequence_);
  }
  SyncResult Sync(Fault fault = Fault::kNone) {
    fault_ = fault;
    const SyncResult result = reconciler_->Sync(SIZE_MAX);
    fault_ = Fault::kNone;
    while (remove_leftovers_ && reconciler_->HasLeftovers()) reconciler_->RemoveLeftovers();
    reconciler_->SaveObjects();
    return result;
  }
  // Adds `difference` to the last byte of the markers.
  void SetMarkers(int difference) {
    for (const Family family : kFamilies) {
      const nft::SetRef set = {family, kMarker};
      ASSERT_OK_AND_ASSIGN(std::vector<nft::Element> markers, kernel_.ReadSet(set));
      ASSERT_EQ(markers.size(), 1u);
      nft::Element& marker = markers[0];
      ASSERT_TRUE(kernel_.ForeignRemoveElement(set, marker.key));
      marker.data.back() = static_cast<uint8_t>(marker.data.back() + difference);
      ASSERT_TRUE(kernel_.ForeignAddElement({.set = set, .key = marker.key, .data = marker.data}));
    }
  }
  // Programs World() and commits `changes`, but does not delete the elements that they leave over.
  void CommitWithoutRemoval(const std::vector<Change>& changes) {
    Begin();
    Notify(World());
    Sync();
    Note();
    remove_leftovers_ = false;
    Notify(changes);
    EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
    ASSERT_TRUE(reconciler_->HasLeftovers());
  }
  // Returns the deletions of all elements that the applied state does not contain.
  nft::Transaction DeletionsOf(Reconciler& reconciler) {
    nft::Transaction deletions;
    const Lines applied = Additions(reconciler.AppliedRows());
    for (const Family family : kFamilies) {
      for (uint8_t set = kMarker + 1; set < kSetCount; ++set) {
        const auto elements = kernel_.ReadSet({family, set});
        for (const nft::Element& element : *elements) {
          nft::Transaction addition;
          addition.Add({.set = {family, set},
                        .key = element.key,
                        .data = element.data,
                        .comment = element.comment,
                        .interval_end = element.interval_end,
                        .key_end = element.key_end});
          const Lines line = Additions(addition);
          if (std::find(applied.begin(), applied.end(), line[0]) == applied.end()) {
            deletions.Delete({.set = {family, set}, .key = element.key});
          }
        }
      }
    }
    return deletions;
  }
  void Note() { reconciler_->NoteGeneration(*kernel_.Generation()); }
  std::vector<Change> World() {
    return {Web().Affinity(90), Slice("shop/web", 3).Weight(3),
            AService("shop/b").At("10.96.0.2").Port(80), Slice("shop/b", 2, 2).Weight(3),
            AServiceCidr("c", {"10.96.0.0/16"})};
  }
  // Checks all rows of the kernel, then commits what that found.
  void CheckAllRows() {
    while (reconciler_->HasSuspects()) EXPECT_OK(reconciler_->Repair().error);
    Sync();
    ExpectConverged();
  }
  void ExpectConverged() {
    EXPECT_FALSE(reconciler_->Pending());
    EXPECT_EQ(Contents(kernel_), Additions(reconciler_->DesiredRows()));
    EXPECT_EQ(Contents(kernel_), Additions(reconciler_->AppliedRows()));
  }

  std::string folder_;
  ReconcilerOptions options_{.node_name = "n1"};
  nft::FakeKernel kernel_{Tables()};
  std::unique_ptr<StateLog> log_;
  std::unique_ptr<Reconciler> reconciler_;
  std::vector<Change> objects_;
  std::vector<nft::Transaction> sent_;
  Fault fault_ = Fault::kNone;
  bool remove_leftovers_ = true;
  uint64_t sequence_ = 0;
  size_t saved_objects_ = 0;
};

}  // namespace svcmap::proxy::test
