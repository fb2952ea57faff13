// Services whose changes are divided into several commits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/reconciler_saved_world.h"

namespace svcmap::proxy::test {
namespace {

// A Service with so many ports that their change takes more than one commit, and its EndpointSlice.
constexpr int kManyPorts = 6000;
static_assert(2 * kManyPorts > static_cast<int>(kMaxElementsTogether), "two addresses");

// Ports are distributed to the commits by a hash, so that their sizes differ.
constexpr size_t kMaxInCommit = 3 * kElementsPerCommit / 2;

AService WithManyPorts() {
  AService service = AService("shop/many").At("10.96.0.7").External("192.0.2.7");
  for (int i = 1; i <= kManyPorts; ++i) {
    service.Port(static_cast<uint16_t>(i), "p" + std::to_string(i));
  }
  return service;
}
ASlice EndpointOfManyPorts(const std::string& address) {
  ASlice slice("shop/many-1", "shop/many");
  for (int i = 1; i <= kManyPorts; ++i) {
    slice.Port(static_cast<uint16_t>(i), "p" + std::to_string(i));
  }
  return slice.Ready(address);
}

using ManyPortsTest = ReconcilerTest;

// The first endpoint moves each port from `no-endpoint-services` to `service-ips`. A packet that
// looks up both sets must find the port in one of them, so a later commit deletes the rejection.
TEST_F(ManyPortsTest, ManyPortsOfAServiceChangeInBoundedCommits) {
  Settle({WithManyPorts()});
  Apply({EndpointOfManyPorts("10.1.0.1")});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  ASSERT_GT(sent_.size(), 3u);
  std::set<std::string> served;  // By earlier commits.
  size_t deleted = 0;
  for (const nft::Transaction& transaction : sent_) {
    EXPECT_LE(transaction.element_count(), kMaxInCommit);
    std::set<std::string> added;
    transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
      const std::string key(element.key.begin(), element.key.end());
      if (element.set.set == kServiceIps) {
        EXPECT_EQ(verb, nft::Verb::kAdd);
        added.insert(key);
      } else if (element.set.set == kNoEndpointServices) {
        EXPECT_EQ(verb, nft::Verb::kDelete);
        EXPECT_TRUE(served.contains(key));
        ++deleted;
      }
    });
    served.merge(added);
  }
  EXPECT_EQ(served.size(), 2u * kManyPorts);
  EXPECT_EQ(deleted, 2u * kManyPorts);
  ExpectConverged();
}

TEST_F(ManyPortsTest, EndpointsOfManyPortsAreReplacedInBoundedCommits) {
  Settle({WithManyPorts(), EndpointOfManyPorts("10.1.0.1")});
  Apply({EndpointOfManyPorts("10.1.0.2")});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  size_t replaced = 0;
  for (const nft::Transaction& transaction : sent_) {
    EXPECT_LE(transaction.element_count(), kMaxInCommit);
    std::multiset<std::string> slots;
    transaction.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
      if (element.set.set == kEndpoints) slots.emplace(element.key.begin(), element.key.end());
    });
    for (const std::string& slot : slots) EXPECT_EQ(slots.count(slot), 2u);
    replaced += slots.size();
  }
  EXPECT_EQ(replaced, 2u * kManyPorts);
  ExpectConverged();
}

// If the names move in several commits, a port leads to the endpoints of another port meanwhile.
TEST_F(ManyPortsTest, NamesOfManyPortsMoveInOneCommit) {
  const auto moved = [](int by) {
    AService service = AService("shop/many").At("10.96.0.7").External("192.0.2.7");
    for (int i = 1; i <= kManyPorts; ++i) {
      service.Port(static_cast<uint16_t>(i + by), "p" + std::to_string(i));
    }
    return service;
  };
  Settle({moved(0), EndpointOfManyPorts("10.1.0.1")});
  Apply({moved(1)});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  size_t switches = 0;
  for (const nft::Transaction& transaction : sent_) {
    bool has_switch = false;
    transaction.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
      has_switch |= element.set.set == kServiceIps;
    });
    switches += has_switch ? 1 : 0;
  }
  EXPECT_EQ(switches, 1u);
  ExpectConverged();
}

TEST_F(ManyPortsTest, ManyPortsConvergeAfterAnyRejectedCommit) {
  Settle({WithManyPorts()});
  Apply({EndpointOfManyPorts("10.1.0.1")});
  for (int rejected = 1;; rejected += 29) {
    ASSERT_LT(rejected, 200);
    int commits = 0;
    kernel_.SetFaultHook([&](const nft::Transaction&) {
      return ++commits >= rejected ? Fault::kReject : Fault::kNone;
    });
    const SyncResult result = reconciler_.Sync(SIZE_MAX);
    kernel_.SetFaultHook(nullptr);
    if (result.outcome == Outcome::kCommitted) {
      EXPECT_GT(rejected, 3);
      break;
    }
    while (reconciler_.HasSuspects()) {
      EXPECT_NE(reconciler_.Repair().outcome, RepairResult::Outcome::kFailed);
    }
    EXPECT_EQ(Contents(kernel_), Additions(reconciler_.AppliedRows()));
  }
  RemoveLeftovers(reconciler_);
  ExpectConverged();
}

// The agent is killed after some of the commits that change a Service with many ports.
class SavedManyPortsTest : public SavedTest {
 protected:
  // Returns false if the change takes fewer commits.
  bool KillAfter(size_t commits, const Change& change) {
    Begin();
    Notify({WithManyPorts(), EndpointOfManyPorts("10.1.0.1")});
    Sync();
    Note();
    Notify({change});
    const std::filesystem::path copy = folder_ + "-copy";
    std::filesystem::remove_all(copy);
    sent_.clear();
    kernel_.SetFaultHook([&](const nft::Transaction& transaction) {
      sent_.push_back(transaction);
      if (sent_.size() == commits) std::filesystem::copy(folder_, copy);
      return sent_.size() > commits ? Fault::kReject : Fault::kNone;
    });
    const bool killed = reconciler_->Sync(SIZE_MAX).outcome == Outcome::kFailed;
    kernel_.SetFaultHook(nullptr);
    if (!killed) return false;
    End();
    std::filesystem::remove_all(folder_);
    std::filesystem::rename(copy, folder_);
    return true;
  }
};

TEST_F(SavedManyPortsTest, TheNextRunConverges) {
  for (const Change& change : {NoSlice("shop/many-1"), Change(EndpointOfManyPorts("10.1.0.2"))}) {
    size_t commits = 1;
    for (; KillAfter(commits, change); commits += 41) {
      SCOPED_TRACE(commits);
      ASSERT_LT(commits, 200u);
      EXPECT_EQ(Begin(), AdoptedState::kToVerify);
      const SyncResult result = Sync();
      EXPECT_EQ(result.outcome, Outcome::kCommitted) << result.error;
      EXPECT_FALSE(result.recreated);
      while (reconciler_->HasSuspects()) EXPECT_OK(reconciler_->Repair().error);
      ExpectConverged();
    }
    EXPECT_GT(commits, 2u);
  }
}

}  // namespace
}  // namespace svcmap::proxy::test
