// Tests the differences that KernelCheck reports between the desired state and the kernel state
// after changes by other processes.
#include "proxy/explain/kernel_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/reconcile/reconciler.h"
#include "tests/support/fake_kernel.h"
#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class KernelCheckTest : public ::testing::Test {
 protected:
  KernelCheckTest() {
    reconciler_.node().SetInterfaceAddresses(Ips({"192.0.2.10"}));
    Commit({ANode("n1", {"192.0.2.10"}),
            AService("shop/web").At("10.96.0.1").Port(80).NodePort(30080).Port(443, "tls"),
            ASlice("shop/web-1", "shop/web").Port(8080).Local("10.1.0.5").Ready("10.1.1.7")});
  }

  void Commit(const std::vector<Change>& changes) {
    for (const Change& change : changes) reconciler_.store().Apply(change, ++sequence_);
    ASSERT_TRUE(reconciler_.Sync(SIZE_MAX).error.ok());
  }

  Lines Disagreements(const std::string& address, uint16_t port) {
    const Question question{.destination = Ip(address), .port = port};
    const Explained explained = Explain(reconciler_.ContextForExplain(), question);
    const nft::TableSpecs tables = Tables();
    KernelCheck check(tables, reconciler_.DestinationRows(question, explained),
                      DecidingRows(question.destination, question.protocol, question.port));
    // Every portion contains one element.
    size_t portions = 1;
    while (!reconciler_.Compare(check, {})) ++portions;
    EXPECT_EQ(portions, check.elements());
    const auto lines = check.differences();
    return lines.ok() ? *lines : Lines{lines.status().ToString()};
  }

  // Removes the elements that DecidingRows returns for the given set.
  void Remove(SetIndex set, const std::string& address, uint16_t port) {
    for (const Row& row : DecidingRows(Ip(address), Protocol::kTcp, port)) {
      if (row.set.set == set) {
        EXPECT_TRUE(kernel_.ForeignRemoveElement(row.set, row.key.bytes()));
      }
    }
  }

  nft::FakeKernel kernel_{Tables()};
  Reconciler reconciler_{kernel_, {.node_name = "n1"}};
  uint64_t sequence_ = 0;
};

TEST_F(KernelCheckTest, WhatIsCommittedAgreesWithPoliciesRangesAndAffinity) {
  Commit({AService("shop/web")
              .At("10.96.0.1")
              .LoadBalancer("198.51.100.1")
              .Port(80)
              .NodePort(30080)
              .InternalLocal()
              .ExternalLocal()
              .SourceRange("203.0.113.0/24")
              .Affinity(60)});
  for (const auto& [address, port] : std::vector<std::pair<const char*, uint16_t>>{
           {"10.96.0.1", 80}, {"198.51.100.1", 80}, {"192.0.2.10", 30080}}) {
    EXPECT_THAT(Disagreements(address, port), IsEmpty()) << address << ":" << port;
  }
  Remove(kFirewallIps, "198.51.100.1", 80);
  EXPECT_THAT(Disagreements("198.51.100.1", 80),
              ElementsAre("198.51.100.1 . tcp . 80 in firewall-ips is missing in the kernel"));
}

TEST_F(KernelCheckTest, ElementsThatAreGoneAreNamed) {
  Remove(kServiceIps, "10.96.0.1", 80);
  Remove(kClusterIps, "10.96.0.1", 80);
  Remove(kNoEndpointServices, "10.96.0.1", 443);
  const Row endpoint = EndpointRow({Family::kIpv4, kEndpoints}, 1, 1, {});
  ASSERT_TRUE(kernel_.ForeignRemoveElement(endpoint.set, endpoint.key.bytes()));
  EXPECT_THAT(Disagreements("10.96.0.1", 80),
              UnorderedElementsAre("10.96.0.1 . tcp . 80 in service-ips is missing in the kernel",
                                   "10.96.0.1 in cluster-ips is missing in the kernel",
                                   "0x1 . 1 in endpoints is missing in the kernel"));
  EXPECT_THAT(
      Disagreements("10.96.0.1", 443),
      UnorderedElementsAre("10.96.0.1 . tcp . 443 in no-endpoint-services is missing in the kernel",
                           "10.96.0.1 in cluster-ips is missing in the kernel"));
}

TEST_F(KernelCheckTest, ElementsOfWhatIsNoLongerWantedAreNamed) {
  reconciler_.store().Apply(NoService("shop/web"), ++sequence_);
  EXPECT_THAT(
      Disagreements("10.96.0.1", 80),
      UnorderedElementsAre(
          "10.96.0.1 in cluster-ips is in the kernel but not in the desired state",
          "10.96.0.1 . tcp . 80 in service-ips is in the kernel but not in the desired state"));
  EXPECT_THAT(
      Disagreements("192.0.2.10", 30080),
      ElementsAre(
          "192.0.2.10 . tcp . 30080 in service-ips is in the kernel but not in the desired state"));
  Commit({});
  EXPECT_THAT(Disagreements("10.96.0.1", 80), IsEmpty());
}

TEST_F(KernelCheckTest, OtherDataIsNamedWithBoth) {
  reconciler_.store().Apply(
      ASlice("shop/web-1", "shop/web").Port(8080).Local("10.1.0.5").Ready("10.1.1.8"), ++sequence_);
  EXPECT_THAT(
      Disagreements("10.96.0.1", 80),
      ElementsAre("0x1 . 1 in endpoints has value 10.1.1.7 . 8080, expected 10.1.1.8 . 8080"));
}

}  // namespace
}  // namespace svcmap::proxy
