// A reconciler on a fake kernel, and the transactions that it has sent.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/reconcile/reconciler.h"
#include "tests/contract/rows.h"
#include "tests/support/fake_kernel.h"
#include "tests/unit/proxy/all_rows.h"
#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy::test {

constexpr size_t kMarkerElements = 4;  // Each commit deletes and adds the marker in both families.

// Returns an EndpointSlice with `count` endpoints, starting at 10.`second`.0.0.
inline ASlice Slice(const std::string& service, int count, int second = 1) {
  ASlice slice(service + "-1", service);
  slice.Port(8080);
  for (int i = 0; i < count; ++i) {
    slice.Ready("10." + std::to_string(second) + "." + std::to_string(i / 250) + "." +
                std::to_string(i % 250));
  }
  return slice;
}

class ReconcilerTest : public ::testing::Test {
 protected:
  using Fault = nft::FakeKernel::Fault;
  using Outcome = SyncResult::Outcome;

  ReconcilerTest() {
    kernel_.SetFaultHook([this](const nft::Transaction& transaction) {
      sent_.push_back(transaction);
      return fault_;
    });
  }

  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) reconciler_.store().Apply(change, ++sequence_);
  }
  SyncResult Sync(size_t limit = SIZE_MAX, Fault fault = Fault::kNone) {
    fault_ = fault;
    SyncResult result = reconciler_.Sync(limit);
    RemoveLeftovers(reconciler_);
    return result;
  }
  // Writes all plans. Returns the last result, with `recreated` of all plans.
  SyncResult SyncAll() {
    SyncResult result = Sync();
    while (result.outcome == Outcome::kCommitted && reconciler_.Pending()) {
      const bool recreated = result.recreated;
      result = Sync();
      result.recreated |= recreated;
    }
    return result;
  }
  static void RemoveLeftovers(Reconciler& reconciler) {
    while (!reconciler.leftovers().empty()) reconciler.RemoveLeftovers();
  }
  // Applies the changes, and checks that the changes are committed and visible in the kernel.
  void Settle(const std::vector<Change>& changes) {
    Apply(changes);
    const SyncResult result = SyncAll();
    ASSERT_EQ(result.outcome, Outcome::kCommitted) << result.error;
    ExpectConverged();
    sent_.clear();
  }
  void ExpectConverged() {
    EXPECT_FALSE(reconciler_.Pending());
    EXPECT_EQ(Contents(kernel_), Additions(DesiredRows(reconciler_)));
    EXPECT_EQ(Contents(kernel_), Additions(AppliedRows(reconciler_)));
    EXPECT_EQ(ReadMarker(Family::kIpv4), reconciler_.applied().marker());
    EXPECT_EQ(ReadMarker(Family::kIpv6), reconciler_.applied().marker());
  }
  Marker ReadMarker(Family family) {
    Marker marker;
    // The other family's numbers are not in this table.
    marker.next_numbers = reconciler_.applied().marker().next_numbers;
    const auto rows = kernel_.ReadElements({family, kMarker}, MarkerKeys());
    EXPECT_TRUE(rows.ok() && ParseMarker(family, *rows, marker));
    return marker;
  }

  // An affinity record in the form that the packet path writes: the choice for an IPv4 client.
  const svcmap::testing::Row kRecord =
      svcmap::testing::RecordRow(Family::kIpv4, 7, 1, Choice(1, 1));
  void WriteRecord() {
    nft::Transaction transaction;
    transaction.Add(kRecord);
    EXPECT_TRUE(kernel_.Apply(transaction).error.ok());
    sent_.clear();
  }
  bool HasRecord() {
    const auto record = kernel_.ReadElement(kRecord.set, kRecord.key.bytes());
    return record.ok() && record->has_value();
  }

  nft::FakeKernel kernel_{Tables()};
  Reconciler reconciler_{kernel_, {.node_name = "n1"}};
  std::vector<nft::Transaction> sent_;
  Fault fault_ = Fault::kNone;
  uint64_t sequence_ = 0;
};

}  // namespace svcmap::proxy::test
