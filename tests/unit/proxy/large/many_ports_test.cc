// Services with so many ports that their endpoints are added in commits ahead of the switch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy::test {
namespace {

// A Service with many ports, and its EndpointSlice.
constexpr int kManyPorts = 6000;
static_assert(2 * kManyPorts > static_cast<int>(kMaxElementsTogether), "two addresses");

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
TEST_F(ManyPortsTest, ManyPortsOfAServiceAreSwitchedInOneCommit) {
  Settle({WithManyPorts()});
  Apply({EndpointOfManyPorts("10.1.0.1")});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  ASSERT_GT(sent_.size(), 3u);
  std::set<std::string> served;  // By earlier commits.
  size_t deleted = 0, switches = 0;
  for (const nft::Transaction& transaction : sent_) {
    switches += transaction.element_count() > kElementsPerCommit ? 1 : 0;
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
  EXPECT_EQ(switches, 1u);
  EXPECT_EQ(served.size(), 2u * kManyPorts);
  EXPECT_EQ(deleted, 2u * kManyPorts);
  ExpectConverged();
}

TEST_F(ManyPortsTest, ManyPortsConvergeAfterAnyRejectedCommit) {
  Settle({WithManyPorts()});
  Apply({EndpointOfManyPorts("10.1.0.1")});
  for (int rejected = 1;; rejected += 7) {
    ASSERT_LT(rejected, 50);
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
    while (reconciler_.WorkLeft().suspects) {
      EXPECT_NE(reconciler_.Repair().outcome, RepairResult::Outcome::kFailed);
    }
    EXPECT_EQ(Contents(kernel_), Additions(AppliedRows(reconciler_)));
  }
  RemoveLeftovers(reconciler_);
  ExpectConverged();
}

}  // namespace
}  // namespace svcmap::proxy::test
