// Tests that a Service that the kernel rejects does not block other Services.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nft/base/status.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy::test {
namespace {

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
  const SharedCounts counts;
  SyncPlan plan(counts);
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

}  // namespace
}  // namespace svcmap::proxy::test
