// Tests that a dry run has no side effects and reports exactly the effect of the real change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/random_changes.h"
#include "tests/unit/proxy/reconciler_world.h"
#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Lines Messages(const std::vector<Finding>& findings) {
  Lines lines;
  for (const Finding& finding : findings) lines.push_back(finding.ToString());
  return lines;
}

// Sorts lines for comparison, because the order of shared rows is not significant.
Lines Sorted(Lines lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Returns `contents` after applying `rows`. A deletion in `rows` contains only the key.
Lines After(const nft::Transaction& rows, Lines contents) {
  Lines added;
  std::set<std::string> deleted;
  rows.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (verb == nft::Verb::kAdd) {
      added.push_back(Text(element));
    } else {
      EXPECT_TRUE(deleted.insert(Text(element)).second);
    }
  });
  std::erase_if(contents, [&](const std::string& line) {
    return deleted.erase(line.substr(0, std::min(line.find(" : "), line.find(" \"")))) > 0;
  });
  EXPECT_THAT(deleted, IsEmpty());
  contents.insert(contents.end(), added.begin(), added.end());
  return Sorted(std::move(contents));
}

// Returns the observable state of a store, except for the list of touched objects, because reading
// this list would clear it.
Lines StateOf(const Store& store) {
  Lines lines;
  const auto number = [](uint64_t value) { return std::to_string(value); };
  const auto add_owner = [&](const ClaimKey& claim) {
    const Service* owner = store.claims().Owner(claim);
    lines.push_back(claim.ToString() + " is " + (owner == nullptr ? "free" : owner->message));
  };
  for (const auto& [key, entry] : store.services()) {
    std::string line = key + ": " + (entry.service ? entry.service->message : "unknown");
    for (const auto& slice : entry.slices) line += " | " + slice->key + " " + slice->message;
    lines.push_back(line);
    if (!entry.service) continue;
    for (const ClaimKey& claim : ClaimsOf(*entry.service)) add_owner(claim);
  }
  for (const auto& [key, slice] : store.slices()) lines.push_back(key + slice->message);
  for (const auto& [key, node] : store.nodes()) lines.push_back(key + node->message);
  for (const auto& [key, cidr] : store.service_cidrs()) lines.push_back(key + cidr->message);
  std::sort(lines.begin(), lines.end());
  store.dirty().ForEach(
      [&](const DirtyService& d) { lines.push_back("dirty " + d.key + number(d.sequence)); });
  lines.push_back("token " + number(store.token()[0]) + " " + number(store.token()[1]));
  lines.push_back("counts " + number(store.service_count()) + " " + number(store.slices().size()) +
                  " " + number(store.bytes()) + " " + number(store.elements()));
  lines.push_back("version " + number(store.node_version()) + number(store.addresses_moved()));
  return lines;
}

// A reconciler and the transactions that it has sent.
struct AgentRun {
  AgentRun() {
    kernel.SetFaultHook([this](const nft::Transaction& transaction) {
      for (std::string& line : Operations(transaction)) sent.push_back(std::move(line));
      sent = Sorted(std::move(sent));
      return fault;
    });
  }
  void Apply(const std::vector<Change>& changes) {
    ++sequence;
    for (const Change& change : changes) reconciler.store().Apply(change, sequence);
  }
  SyncResult Sync(nft::FakeKernel::Fault with = nft::FakeKernel::Fault::kNone) {
    fault = with;
    sent.clear();
    SyncResult result = reconciler.Sync(SIZE_MAX);
    while (!reconciler.leftovers().empty()) reconciler.RemoveLeftovers();
    return result;
  }

  nft::FakeKernel kernel{Tables()};
  Reconciler reconciler{kernel,
                        {.node_name = "n0", .ruleset = {.detect_local = DetectLocal::kNodeCidr}}};
  Lines sent;
  nft::FakeKernel::Fault fault = nft::FakeKernel::Fault::kNone;
  uint64_t sequence = 0;
};

// Two agents receive the same objects. Only one agent performs a dry run before each change.
class DryRunPropertyTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void Sync(nft::FakeKernel::Fault fault) {
    EXPECT_EQ(asked_.reconciler.store().TakeTouched(), other_.reconciler.store().TakeTouched());
    result_ = asked_.Sync(fault);
    const SyncResult other = other_.Sync(fault);
    ASSERT_EQ(asked_.sent, other_.sent) << "without dry runs it would have sent the second";
    EXPECT_EQ(result_.outcome, other.outcome);
    EXPECT_EQ(result_.recreated, other.recreated);
    EXPECT_EQ(Contents(asked_.kernel), Contents(other_.kernel));
    EXPECT_EQ(asked_.reconciler.applied().marker(), other_.reconciler.applied().marker());
  }
  // Writes all pending changes.
  void Settle() { Sync(nft::FakeKernel::Fault::kNone); }

  DryRun Ask(const std::vector<Change>& changes) {
    const Lines before = StateOf(asked_.reconciler.store());
    const Lines contents = Contents(asked_.kernel);
    asked_.sent.clear();
    DryRun reported = asked_.reconciler.Try([&] {
      for (const Change& change : changes) asked_.reconciler.store().Apply(change, 99);
    });
    EXPECT_EQ(StateOf(asked_.reconciler.store()), before);
    EXPECT_EQ(Contents(asked_.kernel), contents);
    EXPECT_THAT(asked_.sent, IsEmpty());
    return reported;
  }

  std::vector<Change> SomeChanges() {
    std::vector<Change> changes;
    for (unsigned i = random_.Chance(60) ? 1 : 1 + random_.Below(6); i > 0; --i) {
      changes.push_back(random_.AnyChange());
    }
    return changes;
  }

  RandomChanges random_{GetParam()};
  AgentRun asked_, other_;
  SyncResult result_;
};

TEST_P(DryRunPropertyTest, TellsWhatTheRealThingDoesAndLeavesNothingBehind) {
  int compared = 0, on_top = 0;
  for (int step = 0; step < 150 && !HasFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    if (random_.Chance(5)) {
      const std::vector<IpAddress> addresses = random_.InterfaceAddresses();
      asked_.reconciler.node().SetInterfaceAddresses(addresses);
      other_.reconciler.node().SetInterfaceAddresses(addresses);
    }
    const std::vector<Change> changes = SomeChanges();
    const bool waiting = asked_.reconciler.Pending();
    const DryRun reported = Ask(changes);
    EXPECT_EQ(reported.revision, asked_.reconciler.revision());
    // Sometimes skip the real change after the dry run.
    if (random_.Chance(20)) continue;
    // Sometimes write pending changes first, so that all rows of the next transaction belong to the
    // change from the dry run.
    if (waiting && random_.Chance(60)) Settle();
    const bool alone = !asked_.reconciler.Pending();
    Lines before = Contents(asked_.kernel);
    asked_.Apply(changes);
    other_.Apply(changes);
    // Sometimes leave the change pending, so that the next sync merges the change with later
    // changes.
    if (random_.Chance(25)) continue;
    if (random_.Chance(15)) {
      Sync(nft::FakeKernel::Fault::kUnknownNotCommitted);
      continue;
    }
    Settle();
    if (!alone) continue;
    ++(waiting ? on_top : compared);
    if (!waiting) {
      EXPECT_EQ(reported.recreates, result_.recreated);
      Lines findings;
      for (const auto& [sequence, service, finding, known] : result_.findings) {
        findings.push_back(finding.ToString());
      }
      EXPECT_EQ(Messages(reported.findings), findings);
    }
    if (!result_.recreated) {
      EXPECT_EQ(Sorted(Operations(reported.rows)), asked_.sent);
      continue;
    }
    EXPECT_EQ(Contents(asked_.kernel), After(reported.rows, std::move(before)));
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(on_top, 3);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DryRunPropertyTest, ::testing::Range(1u, 4u));

using DryRunLoopTest = LoopTest;

TEST_F(DryRunLoopTest, GoesBetweenBatchesAndIsNoBatch) {
  StartServing();
  const LoopStatus before = loop_->status();
  std::vector<Finding> found;
  const std::optional<DryRun> reported = loop_->Try(
      {.changes = {Web()}, .on_accepted = [&](const auto& findings) { found = findings; }});
  ASSERT_TRUE(reported);
  EXPECT_THAT(Operations(reported->rows), SizeIs(2));
  EXPECT_THAT(found, IsEmpty());
  EXPECT_THAT(TakeSizes(), IsEmpty());
  const LoopStatus after = loop_->status();
  EXPECT_EQ(after.commits, before.commits);
  EXPECT_EQ(after.services, before.services);
  EXPECT_FALSE(after.oldest_unsynced);
  EXPECT_EQ(Await(Submit({Web()})).outcome, Outcome::kCommitted);
}

}  // namespace
}  // namespace svcmap::proxy::test
