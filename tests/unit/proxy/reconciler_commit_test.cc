// Tests that a Service that the kernel rejects does not block other Services.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nft/base/status.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A fake kernel that rejects elements with the comment of one Service.
class PickyKernel final : public nft::Kernel {
 public:
  explicit PickyKernel(nft::Kernel& kernel) : kernel_(kernel) {}

  nft::ApplyResult Apply(const nft::Transaction& transaction) override {
    std::optional<size_t> rejected;
    size_t number = 0;
    transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
      const bool bad =
          verb == nft::Verb::kAdd &&
          (set ? element.set == *set
               : !comment.empty() && element.comment.substr(0, comment.size()) == comment);
      if (bad && !rejected) rejected = number;
      ++number;
    });
    if (!rejected) return kernel_.Apply(transaction);
    return {nft::ApplyOutcome::kRejected, ErrnoStatus(EINVAL, "add to service-ips"),
            tells ? rejected : std::nullopt};
  }
  absl::StatusOr<bool> HasTable(Family family) override { return kernel_.HasTable(family); }
  absl::StatusOr<std::vector<nft::Element>> ReadSet(nft::SetRef set) override {
    if (!readable) return absl::UnavailableError("a commit interrupted the dump");
    return kernel_.ReadSet(set);
  }
  absl::StatusOr<std::vector<std::optional<nft::Element>>> ReadElements(
      nft::SetRef set, std::span<const nft::FieldBytes> keys) override {
    return kernel_.ReadElements(set, keys);
  }
  absl::StatusOr<std::optional<nft::TableContent>> ReadTable(Family family) override {
    return kernel_.ReadTable(family);
  }
  absl::StatusOr<nft::TableContent> ReferenceContent(const nft::TableSpec& spec) override {
    return kernel_.ReferenceContent(spec);
  }
  absl::StatusOr<uint32_t> Generation() override { return kernel_.Generation(); }

  std::string comment;  // Comment of rejected elements. If empty, the kernel accepts all elements.
  std::optional<nft::SetRef> set;  // If present, all elements of this set are rejected instead.
  bool tells = true;               // True if the error identifies the rejected element.
  bool readable = true;

 private:
  nft::Kernel& kernel_;
};

TEST(RejectionsTest, TemporaryErrorsDoNotReplaceTheCheckOfTheRows) {
  SyncPlan plan;
  const Applied applied;
  Rejections rejections;
  const auto handle = [&](int code) {
    return rejections.Handle(TableState::kCurrent, plan,
                             {nft::ApplyOutcome::kRejected, ErrnoStatus(code, "commit")}, applied);
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(handle(ENOMEM), Rejections::Remedy::kRetry);
  }
  // Another process may change rows between the checks.
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(handle(EEXIST), Rejections::Remedy::kCheckRows);
  }
  EXPECT_EQ(handle(EEXIST), Rejections::Remedy::kRewrite);
  // A rewrite that fails must not be repeated in the same way indefinitely.
  plan.rewrite = true;
  EXPECT_EQ(handle(EINVAL), Rejections::Remedy::kRetry);
  EXPECT_EQ(handle(EINVAL), Rejections::Remedy::kRetry);
  EXPECT_EQ(handle(EINVAL), Rejections::Remedy::kRewrite);
}

class RejectionTest : public ::testing::TestWithParam<bool> {
 protected:
  RejectionTest() { kernel_.tells = GetParam(); }

  static Change Numbered(int i) {
    return AService("shop/s" + std::to_string(i)).At("10.96.0." + std::to_string(i)).Port(80);
  }
  void Apply(const Change& change) { reconciler_.store().Apply(change, ++sequence_); }
  // Syncs until all Services except the rejected Service are programmed. Returns the reported
  // findings.
  std::vector<Finding> Settle() {
    std::vector<Finding> findings;
    int rounds = 0;
    for (; reconciler_.Pending() && rounds < 100; ++rounds) {
      while (reconciler_.WorkLeft().suspects) EXPECT_OK(reconciler_.Repair().error);
      for (const PlanFinding& found : reconciler_.Sync(SIZE_MAX).findings) {
        findings.push_back(found.finding);
      }
      while (!reconciler_.leftovers().empty()) EXPECT_OK(reconciler_.RemoveLeftovers().error);
    }
    EXPECT_LT(rounds, 100) << "does not settle";
    return findings;
  }
  size_t ServiceIps() { return fake_.ReadSet({Family::kIpv4, kNoEndpointServices})->size(); }

  nft::FakeKernel fake_{Tables()};
  PickyKernel kernel_{fake_};
  Reconciler reconciler_{kernel_, {.node_name = "n1"}};
  uint64_t sequence_ = 0;
};

TEST_P(RejectionTest, TheOthersAreProgrammedAndItIsNamed) {
  Apply(Numbered(1));
  Settle();
  kernel_.comment = "shop/s5:";
  for (int i = 2; i <= 9; ++i) Apply(Numbered(i));
  const std::vector<Finding> findings = Settle();
  EXPECT_EQ(ServiceIps(), 8u);
  EXPECT_EQ(StatusOf(reconciler_).rejected_services, 1u);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].key, "shop/s5");
  EXPECT_THAT(findings[0].ToString(), HasSubstr("EINVAL"));
  // The finding stays until the kernel accepts the Service.
  reconciler_.RetryRejected();
  Settle();
  EXPECT_THAT(*StatusOf(reconciler_).findings, SizeIs(1));
  kernel_.comment.clear();
  reconciler_.RetryRejected();
  Settle();
  EXPECT_THAT(*StatusOf(reconciler_).findings, IsEmpty());
}

// For example, another process has replaced a set between the read of the tables and the commit.
TEST_P(RejectionTest, ARewriteWhoseErrorNamesNoServiceKeepsAllServices) {
  for (int i = 1; i <= 4; ++i) Apply(Numbered(i));
  Settle();
  Reconciler next(kernel_, {.node_name = "n1"});
  ASSERT_OK(next.Adopt().status());
  uint64_t sequence = 0;
  for (int i = 1; i <= 4; ++i) next.store().Apply(Numbered(i), ++sequence);
  for (const char* cidr : {"10.96.0.0/16", "10.97.0.0/16"}) {
    SCOPED_TRACE(cidr);
    next.Invalidate();
    next.store().Apply(AServiceCidr("c", {cidr}), ++sequence);
    kernel_.set = {Family::kIpv4, kServiceCidrs};
    EXPECT_EQ(next.Sync(SIZE_MAX).outcome, SyncResult::Outcome::kFailed);
    kernel_.set.reset();
    EXPECT_EQ(next.Sync(SIZE_MAX).outcome, SyncResult::Outcome::kCommitted);
    EXPECT_EQ(StatusOf(next).rejected_services, 0u);
    EXPECT_EQ(Contents(fake_), Additions(DesiredRows(next)));
    next.store().Apply(Numbered(5), ++sequence);  // The only change of the second rewrite.
  }
}

TEST_P(RejectionTest, S116SourceRangesAreAddedEvenIfTheirSetCannotBeRead) {
  const auto web = [] { return AService("shop/s1").At("10.96.0.1").Port(80); };
  Apply(web());
  Settle();
  reconciler_.MarkSuspect({.sets = {{Family::kIpv4, kFirewallSources}}});
  kernel_.readable = false;
  Apply(web().LoadBalancer("203.0.113.1").SourceRange("10.0.0.0/24"));
  EXPECT_EQ(reconciler_.Sync(SIZE_MAX).outcome, SyncResult::Outcome::kCommitted);
  EXPECT_TRUE(reconciler_.WorkLeft().suspects);
}

TEST_P(RejectionTest, ItsLastGoodStateStaysAndItIsRetriedAlone) {
  Apply(Numbered(1));
  Apply(AService("shop/s5").At("10.96.0.5").Port(443));
  Settle();
  kernel_.comment = "shop/s5:";
  Apply(Numbered(5));
  EXPECT_THAT(Settle(), SizeIs(1));
  EXPECT_EQ(ServiceIps(), 2u);

  for (int i = 6; i <= 8; ++i) Apply(Numbered(i));
  reconciler_.RetryRejected();
  EXPECT_THAT(Settle(), SizeIs(1));
  EXPECT_EQ(ServiceIps(), 5u);
  EXPECT_EQ(StatusOf(reconciler_).rejected_services, 1u);

  kernel_.comment.clear();
  reconciler_.RetryRejected();
  EXPECT_THAT(Settle(), SizeIs(0));
  EXPECT_EQ(StatusOf(reconciler_).rejected_services, 0u);
  EXPECT_EQ(Contents(fake_), Additions(DesiredRows(reconciler_)));
}

// Another Service claims an address that a rejected Service released, but that its applied rows
// still contain. One commit cannot contain both.
TEST_P(RejectionTest, AnAddressThatARejectedServiceStillHasIsNotGivenToAnother) {
  for (const bool rewrite : {false, true}) {
    SCOPED_TRACE(rewrite ? "rewrite" : "change");
    const std::string ip = "198.51.100.1";
    Apply(AService("shop/s5").At("10.96.0.5").External(ip).Port(80));
    Apply(Slice("shop/s5", 2));
    Settle();
    kernel_.comment = "shop/s5:";
    Apply(AService("shop/s5").At("10.96.0.5").Port(81));
    EXPECT_THAT(Settle(), SizeIs(1));

    Apply(AService("shop/s6").At("10.96.0.6").External(ip).Port(80));
    Apply(Slice("shop/s6", 1, 6));
    Apply(Numbered(7));
    if (rewrite) reconciler_.Invalidate();
    const std::vector<Finding> findings = Settle();
    ASSERT_THAT(findings, SizeIs(1));
    EXPECT_EQ(findings[0].key, "shop/s6");
    EXPECT_THAT(findings[0].ToString(), HasSubstr("shop/s5"));
    EXPECT_EQ(ServiceIps(), 1u);
    EXPECT_EQ(Contents(fake_), Additions(AppliedRows(reconciler_)));

    kernel_.comment.clear();
    for (int i = 0; i < 2; ++i) {  // In the first round, shop/s6 may precede shop/s5.
      reconciler_.RetryRejected();
      Settle();
    }
    EXPECT_EQ(StatusOf(reconciler_).rejected_services, 0u);
    EXPECT_EQ(Contents(fake_), Additions(DesiredRows(reconciler_)));
    for (const char* key : {"shop/s6", "shop/s7"}) Apply(NoService(key));
    Settle();
  }
}

INSTANTIATE_TEST_SUITE_P(, RejectionTest, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Named" : "NotNamed");
});

// Tests that svcmapd keeps session affinity records when it rewrites its own tables.

class ReconcilerInPlaceTest : public ReconcilerTest {
 protected:
  static AService WithLoadBalancer() { return Web().LoadBalancer("203.0.113.1"); }

  static AService WithManyRanges(AService service) {
    constexpr size_t kRanges = 300;
    static_assert(RemovesManySourceRows(kRanges - 1, kRanges));
    for (size_t i = 0; i < kRanges; ++i) {
      service.SourceRange("10." + std::to_string(i / 256) + "." + std::to_string(i % 256) +
                          ".0/25");
    }
    return service;
  }
};

// svcmapd rewrites a large set if many ranges must be removed, because removing the ranges one by
// one blocks a CPU for some time.
TEST_F(ReconcilerInPlaceTest, S116ManyRangesThatGoAreRewrittenAndTheRecordsStay) {
  const auto web = [] { return Web().Affinity(10800).LoadBalancer("203.0.113.1"); };
  Settle({WithManyRanges(web()), Slice("shop/web", 2)});
  WriteRecord();
  Apply({web().SourceRange("10.0.0.0/25")});
  EXPECT_TRUE(Sync().recreated);
  ASSERT_THAT(sent_.front().repairs(), SizeIs(1));
  EXPECT_THAT(sent_.front().repairs()[0].remove_sets, ::testing::ElementsAre("firewall-sources"));
  EXPECT_THAT(sent_.front().repairs()[0].rewrite, ::testing::ElementsAre("firewall-check"));
  EXPECT_TRUE(HasRecord());
  ExpectConverged();
  sent_.clear();
  Apply({web().SourceRange("10.1.0.0/25")});
  EXPECT_FALSE(Sync().recreated) << "one goes, one comes";
  ExpectConverged();
}

TEST_F(ReconcilerInPlaceTest, S116ManyRangesGoOneByOneIfTheTablesCannotBeRead) {
  Settle({WithManyRanges(WithLoadBalancer()), Slice("shop/web", 2)});
  kernel_.InterruptReads(1000);
  Apply({WithLoadBalancer().SourceRange("10.0.0.0/25")});
  const SyncResult result = Sync();
  EXPECT_EQ(result.outcome, Outcome::kCommitted) << result.error;
  EXPECT_FALSE(result.recreated);
  kernel_.InterruptReads(0);
  ExpectConverged();
}

// The kernel makes new ranges visible after all other elements of a commit.
TEST_F(ReconcilerInPlaceTest, S116RangesAreAddedBeforeTheRestriction) {
  Settle({WithLoadBalancer(), Slice("shop/web", 2)});
  Apply({WithLoadBalancer().SourceRange("10.0.0.0/25").SourceRange("10.0.1.0/25")});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  ASSERT_THAT(sent_, SizeIs(3)) << "ranges, restriction, marker";
  const auto adds_only = [](const nft::Transaction& transaction, SetIndex set) {
    transaction.ForEachElement([set](nft::Verb verb, const nft::ElementView& element) {
      EXPECT_EQ(verb, nft::Verb::kAdd);
      EXPECT_EQ(element.set.set, set);
    });
  };
  EXPECT_EQ(sent_[0].element_count(), 2u);
  adds_only(sent_[0], kFirewallSources);
  EXPECT_EQ(sent_[1].element_count(), 1u);
  adds_only(sent_[1], kFirewallIps);
  ExpectConverged();
  sent_.clear();
  Apply({WithLoadBalancer().SourceRange("10.0.0.0/25").SourceRange("10.0.2.0/25")});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  EXPECT_THAT(sent_, SizeIs(1)) << "the IP was already restricted";
  ExpectConverged();
}

TEST_F(ReconcilerInPlaceTest, S116TheRestrictionWaitsUntilItsRangesAreCommitted) {
  Settle({WithLoadBalancer(), Slice("shop/web", 2)});
  Apply({WithLoadBalancer().SourceRange("10.0.0.0/25")});
  size_t commits = 0;
  kernel_.SetFaultHook(
      [&](const nft::Transaction&) { return ++commits == 1 ? Fault::kReject : Fault::kNone; });
  EXPECT_EQ(reconciler_.Sync(SIZE_MAX).outcome, Outcome::kFailed);
  EXPECT_EQ(commits, 1u);
  const SyncResult result = Sync();
  EXPECT_EQ(result.outcome, Outcome::kCommitted) << result.error;
  ExpectConverged();
}

TEST_F(ReconcilerInPlaceTest, S116NewRangesMayOverlapWithRangesAddedAheadOfAFailedCommit) {
  Settle({WithLoadBalancer(), Slice("shop/web", 2)});
  Apply({WithLoadBalancer().SourceRange("10.0.0.0/25")});
  kernel_.SetFaultHook([commits = 0](const nft::Transaction&) mutable {
    return ++commits == 3 ? Fault::kReject : Fault::kNone;
  });
  ASSERT_EQ(reconciler_.Sync(SIZE_MAX).outcome, Outcome::kFailed);
  Apply({WithLoadBalancer().SourceRange("10.0.0.0/24")});
  const SyncResult result = Sync();
  EXPECT_EQ(result.outcome, Outcome::kCommitted) << result.error;
  ExpectConverged();
}

TEST_F(ReconcilerInPlaceTest, S116ServicesShareTheRoomForRanges) {
  const auto restricted = [](const char* name, const char* cluster_ip, const char* vip, size_t n) {
    AService service = AService(name).At(cluster_ip).Port(80).LoadBalancer(vip);
    for (size_t i = 0; i < n; ++i) {
      service.SourceRange("10." + std::to_string(i / 256) + "." + std::to_string(i % 256) +
                          ".0/25");
    }
    return service;
  };
  const auto a = restricted("shop/a", "10.96.0.1", "203.0.113.1", kMaxSourceRows - 10);
  Settle({a});
  Apply({restricted("shop/b", "10.96.0.2", "203.0.113.2", 11)});
  const SyncResult result = Sync();
  ASSERT_THAT(result.findings, SizeIs(1));
  EXPECT_EQ(result.findings[0].finding.key, "shop/b");
  EXPECT_EQ(reconciler_.applied().counts()[0][kFirewallSources],
            static_cast<int64_t>(kMaxSourceRows - 10));
  Apply({restricted("shop/b", "10.96.0.2", "203.0.113.2", 10)});
  EXPECT_THAT(Sync().findings, IsEmpty());
  ExpectConverged();
}

TEST_F(ReconcilerInPlaceTest, S127ANewTimeoutBringsItsChainsAndTheRecordsStay) {
  Settle({Web().Affinity(10800), Slice("shop/web", 2)});
  WriteRecord();
  Apply({Web().Affinity(90)});
  EXPECT_FALSE(Sync().recreated);
  EXPECT_TRUE(HasRecord());
  ASSERT_THAT(sent_.front().repairs(), SizeIs(2));
  EXPECT_THAT(sent_.front().repairs()[0].rewrite,
              ::testing::UnorderedElementsAre("stick", "stick-90", "stick-local-90", "recall-90",
                                              "recall-local-90"));
  ExpectConverged();
  Apply({Web().Affinity(10800), AService("shop/b").At("10.96.0.2").Port(80).Affinity(90),
         Slice("shop/b", 1, 2)});
  EXPECT_FALSE(Sync().recreated) << "the tables know both";
  ExpectConverged();
}

// All numbers are in use by Services. One of them changes its timeout.
TEST_F(ReconcilerInPlaceTest, TheOnlyServiceOfATimeoutCanChangeIt) {
  std::vector<Change> changes;
  for (uint32_t i = 1; i < kMaxTimers; ++i) {
    const std::string number = std::to_string(i);
    const std::string key = "shop/s" + number;
    changes.push_back(AService(key).At("10.96.1." + number).Port(80).Affinity(i * 10));
    changes.push_back(Slice(key, 1, static_cast<int>(i)));
  }
  Settle(changes);
  const auto change = [this](uint32_t seconds) {
    Apply({AService("shop/s3").At("10.96.1.3").Port(80).Affinity(seconds)});
  };
  change(31);
  EXPECT_EQ(Sync(SIZE_MAX, Fault::kReject).outcome, Outcome::kFailed);
  change(30);  // The number still belongs to the old timeout.
  EXPECT_EQ(Sync().outcome, Outcome::kNothing);
  ExpectConverged();
  change(32);
  SyncResult result = Sync();
  EXPECT_EQ(result.outcome, Outcome::kCommitted) << result.error;
  EXPECT_THAT(result.findings, IsEmpty());
  EXPECT_THAT(sent_.back().repairs()[0].remove_chains, ::testing::Contains("stick-30"));
  ExpectConverged();
  // The old timeout has no number. The next longer one is used.
  Apply({AService("shop/new").At("10.96.2.1").Port(80).Affinity(30), Slice("shop/new", 1, 40)});
  result = Sync();
  ASSERT_THAT(result.findings, SizeIs(1));
  EXPECT_THAT(result.findings[0].finding.ToString(), ::testing::HasSubstr("32 s is used instead"));
  ExpectConverged();
}

// The rewrite must not delete rows that packets reach through others before these others.
TEST_F(ReconcilerInPlaceTest, ARewriteDeletesWhatIsUnknownAfterItsCommit) {
  Settle({Web(), Slice("shop/web", 2)});
  const svcmap::testing::Row unknown =
      svcmap::testing::EndpointRow(77, 0, svcmap::testing::Address(Family::kIpv4, 9), 80);
  ASSERT_TRUE(kernel_.ForeignAddElement(unknown));
  reconciler_.Invalidate();
  fault_ = Fault::kNone;
  EXPECT_TRUE(reconciler_.Sync(SIZE_MAX).recreated);
  EXPECT_FALSE(reconciler_.leftovers().empty());
  RemoveLeftovers(reconciler_);
  EXPECT_THAT(Operations(sent_.back()), ::testing::ElementsAre("- endpoints 0x4d . 0"));
  ExpectConverged();
}

// Counts the waits for packets.
class WaitTest : public ::testing::Test {
 protected:
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) reconciler_.store().Apply(change, ++sequence_);
    ASSERT_EQ(reconciler_.Sync(SIZE_MAX).outcome, SyncResult::Outcome::kCommitted);
  }
  void RemoveLeftovers() {
    while (!reconciler_.leftovers().empty()) EXPECT_OK(reconciler_.RemoveLeftovers().error);
  }

  nft::FakeKernel kernel_{Tables()};
  int waits_ = 0;
  Reconciler reconciler_{kernel_, {.node_name = "n1", .await_packets = [this] { ++waits_; }}};
  uint64_t sequence_ = 0;
};

AService Restricted(int number, int ranges) {
  const std::string text = std::to_string(number);
  AService service =
      AService("shop/s" + text).At("10.96.1." + text).Port(80).LoadBalancer("203.0.113." + text);
  for (int i = 0; i < ranges; ++i) {
    service.SourceRange("10." + std::to_string(i / 256) + "." + std::to_string(i % 256) + ".0/25");
  }
  return service;
}

// A packet may have looked up the tables before the last switch of the previous run.
TEST_F(WaitTest, TheFirstRewriteOfARunWaitsBeforeItDeletesLeftovers) {
  Apply({Restricted(1, 1)});
  Apply({Slice("shop/s1", 2, 1)});
  ASSERT_FALSE(reconciler_.leftovers().empty());
  int waits = 0;
  Reconciler next(kernel_, {.node_name = "n1", .await_packets = [&] { ++waits; }});
  ASSERT_OK(next.Adopt().status());
  next.store().Apply(Restricted(1, 1), 1);
  next.store().Apply(Slice("shop/s1", 2, 1), 1);
  ASSERT_EQ(next.Sync(SIZE_MAX).outcome, SyncResult::Outcome::kCommitted);
  EXPECT_EQ(waits, 1);
}

TEST_F(WaitTest, S116SourceRangesThatWaitAreDeletedBeforeTheirSetIsReplaced) {
  Apply({Restricted(1, 1), Slice("shop/s1", 2, 1), Restricted(2, 300), Slice("shop/s2", 2, 2)});
  RemoveLeftovers();
  Apply({Restricted(1, 0)});
  ASSERT_FALSE(reconciler_.leftovers().empty());
  Apply({Restricted(2, 1)});
  RemoveLeftovers();
  EXPECT_FALSE(reconciler_.WorkLeft().suspects);
}

TEST_F(WaitTest, AFailedDeletionEndsNoOtherWait) {
  Apply({Restricted(1, 0), Slice("shop/s1", 2, 1), Restricted(2, 0), Slice("shop/s2", 2, 2)});
  RemoveLeftovers();
  Apply({Slice("shop/s1", 0, 1)});
  reconciler_.leftovers().EndWait(reconciler_.leftovers().BeginWait());
  Apply({Slice("shop/s2", 0, 2)});
  kernel_.SetFaultHook([](const nft::Transaction&) { return nft::FakeKernel::Fault::kReject; });
  EXPECT_FALSE(reconciler_.RemoveLeftovers().error.ok());
  kernel_.SetFaultHook(nullptr);
  const int before = waits_;
  while (reconciler_.WorkLeft().suspects) reconciler_.Repair();
  EXPECT_GT(waits_, before);
}

// A packet that has found the endpoint set before the switch looks up its endpoint after the
// switch.
TEST_F(WaitTest, AnEndpointSetWithAffinityIsDeletedAfterTheSwitchToAnotherPolicy) {
  const auto service = [] { return Web().Affinity(10800); };
  const auto count = [this](SetIndex set) { return kernel_.ReadSet({Family::kIpv4, set})->size(); };
  Apply({service().InternalLocal(), WebSlice().Local("10.1.0.1")});
  for (const bool local : {false, true}) {
    Apply({local ? service().InternalLocal() : service()});
    EXPECT_EQ(count(kAffinityEndpoints), 1u);
    EXPECT_EQ(count(kAffinityLocalEndpoints), 1u);
    RemoveLeftovers();
    EXPECT_EQ(count(local ? kAffinityEndpoints : kAffinityLocalEndpoints), 0u);
  }
}

TEST_F(WaitTest, TheRulesForSelfEndpointsStayWhileTheirElementsWait) {
  const auto slice = [] { return ASlice("shop/own-1", "shop/own").Port(80).Ready("10.9.0.2"); };
  Apply({AService("shop/own").At("10.96.2.1").Port(80).External("10.9.0.1"),
         slice().Ready("10.9.0.1"), Restricted(1, 0), Slice("shop/s1", 2, 1)});
  RemoveLeftovers();
  size_t repairs = 0;
  kernel_.SetFaultHook([&](const nft::Transaction& transaction) {
    repairs += transaction.repairs().size();
    return nft::FakeKernel::Fault::kNone;
  });
  Apply({slice()});
  Apply({Slice("shop/s1", 3, 1)});
  ASSERT_FALSE(reconciler_.leftovers().empty());
  EXPECT_EQ(repairs, 0u);
  RemoveLeftovers();
  Apply({Slice("shop/s1", 4, 1)});
  EXPECT_GT(repairs, 0u);
}

}  // namespace
}  // namespace svcmap::proxy::test
