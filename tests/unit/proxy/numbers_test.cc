#include "proxy/desired/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "proxy/desired/sticky.h"
#include "tests/unit/proxy/desired_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<uint32_t> Take(NumberAllocator& numbers, int count) {
  std::vector<uint32_t> taken;
  for (int i = 0; i < count; ++i) taken.push_back(numbers.Allocate());
  return taken;
}

TEST(NumberAllocatorTest, AReleasedNumberIsNotUsedWhileThereAreFreshOnes) {
  NumberAllocator numbers(4);
  Take(numbers, 2);
  numbers.Release(1);
  EXPECT_THAT(Take(numbers, 2), ElementsAre(3, 4));
}

TEST(NumberAllocatorTest, TheNumberReleasedLongestAgoIsUsedFirst) {
  NumberAllocator numbers(3);
  Take(numbers, 3);
  numbers.Release(2);
  numbers.Release(3);
  numbers.Release(1);
  EXPECT_THAT(Take(numbers, 3), ElementsAre(2, 3, 1));
}

TEST(NumberAllocatorTest, ZeroSaysThatAllAreInUse) {
  NumberAllocator numbers(2);
  EXPECT_THAT(Take(numbers, 4), ElementsAre(1, 2, 0, 0));
  numbers.Release(2);
  EXPECT_EQ(numbers.Allocate(), 2u);
}

// After a plan fails, the next plan allocates the same numbers.
TEST(NumberAllocatorTest, WhatIsGivenBackIsHandedOutNextInTheSameOrder) {
  NumberAllocator numbers(4);
  EXPECT_THAT(Take(numbers, 4), ElementsAre(1, 2, 3, 4));
  numbers.Release(4);
  numbers.Release(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Take(numbers, 2), ElementsAre(4, 3));
    for (const uint32_t number : {3, 4}) numbers.GiveBack(number);
  }
}

TEST(NumberAllocatorTest, FreshOnesGivenBackAreFresh) {
  NumberAllocator numbers(9);
  EXPECT_THAT(Take(numbers, 2), ElementsAre(1, 2));
  numbers.Release(1);
  EXPECT_THAT(Take(numbers, 2), ElementsAre(3, 4));
  numbers.GiveBack(4);
  numbers.GiveBack(3);
  EXPECT_THAT(Take(numbers, 3), ElementsAre(3, 4, 5)) << "not 1";
}

EndpointAddress AddressAt(const std::string& ip, uint16_t port = 8080) { return {Ip(ip), port}; }

TEST(NumberEndpointsTest, NumbersStartAtOneAndAreNeverZero) {
  Affinity affinity;
  affinity.last_number = 65534;
  NumberEndpoints({AddressAt("10.0.0.1"), AddressAt("10.0.0.2"), AddressAt("10.0.0.3")}, affinity);
  EXPECT_EQ(affinity.endpoints[0].number, 65535);
  EXPECT_EQ(affinity.endpoints[1].number, 1);
  EXPECT_EQ(affinity.endpoints[2].number, 2);
  EXPECT_EQ(affinity.last_number, 2);
}

TEST(NumberEndpointsTest, S126AllOthersAreUsedBeforeTheNumberOfOneThatLeft) {
  Affinity affinity;
  NumberEndpoints({AddressAt("10.0.0.1"), AddressAt("10.0.0.2")}, affinity);
  NumberEndpoints({AddressAt("10.0.0.1")}, affinity);  // This call frees affinity number 2.
  std::set<uint16_t> seen;
  for (uint32_t i = 0; i < kMaxStickyEndpoint - 2; ++i) {
    NumberEndpoints({AddressAt("10.0.0.1"), AddressAt("10.0.0.2", static_cast<uint16_t>(i))},
                    affinity);
    EXPECT_EQ(affinity.endpoints[0].number, 1);
    EXPECT_TRUE(seen.insert(affinity.endpoints[1].number).second);
  }
  EXPECT_FALSE(seen.contains(1));
  EXPECT_FALSE(seen.contains(2));
  NumberEndpoints({AddressAt("10.0.0.1"), AddressAt("10.0.0.3")}, affinity);
  EXPECT_EQ(affinity.endpoints[1].number, 2);
}

class AffinityTimersTest : public ::testing::Test {
 protected:
  uint8_t For(uint32_t seconds) { return timers_.For(seconds, uses_of_others_); }
  // Number i gets the timeout 10 * i and has one use.
  void TakeAll() {
    for (uint32_t i = 1; i < kMaxTimers; ++i) For(i * 10);
    uses_of_others_.fill(1);
    timers_.Commit();
  }

  AffinityTimers timers_;
  TimerUses uses_of_others_ = {};
};

TEST_F(AffinityTimersTest, TheDefaultIsThereAndOthersAreAppended) {
  EXPECT_EQ(For(90), 1);
  EXPECT_EQ(For(10800), 0);
  EXPECT_EQ(For(86400), 2);
  EXPECT_EQ(For(90), 1);
  EXPECT_THAT(timers_.seconds(), ElementsAre(10800, 90, 86400));
}

TEST_F(AffinityTimersTest, OfAFullListTheNextLongerOneOrTheLongestServes) {
  TakeAll();
  EXPECT_EQ(For(5), 1);
  EXPECT_EQ(For(11), 2);
  EXPECT_EQ(For(310), 31);
  EXPECT_EQ(For(311), 0) << "the default is the next longer one";
  EXPECT_EQ(For(10801), 0) << "and the longest";
  EXPECT_EQ(timers_.seconds().size(), kMaxTimers);
}

TEST_F(AffinityTimersTest, OfAFullListTheNumberOfAnUnusedTimeoutIsUsedAgain) {
  TakeAll();
  uses_of_others_[0] = 0;  // The default timeout keeps its number.
  uses_of_others_[7] = 0;
  uses_of_others_[9] = 0;
  EXPECT_EQ(For(90), 9) << "a Service of the same commit uses it";
  EXPECT_EQ(For(5), 7);
  EXPECT_EQ(For(6), 1) << "both numbers are promised to other Services of the commit";
  EXPECT_EQ(timers_.seconds()[7], 5u);
  EXPECT_EQ(timers_.committed()[7], 70u);
  timers_.Commit();
  EXPECT_EQ(timers_.committed()[7], 5u);
}

TEST_F(AffinityTimersTest, AFailedCommitRestoresTheTimeouts) {
  TakeAll();
  uses_of_others_[7] = 0;
  EXPECT_EQ(For(5), 7);
  timers_.Rollback();
  EXPECT_EQ(timers_.seconds()[7], 70u);
  EXPECT_EQ(For(70), 7);
  EXPECT_EQ(For(5), 1) << "the timeout of 70 s is promised";
}

AService Sticky(uint32_t seconds = 10800) { return Web().Affinity(seconds); }

class AffinityRowsTest : public DesiredWorld {
 protected:
  const Affinity& Made() const { return *desired_.rows.ports.at(0).affinity; }
  // Returns the affinity number of each endpoint as lines such as "10.0.0.1 is 1".
  Lines EndpointNumbers() const {
    Lines lines;
    for (const Affinity::Endpoint& e : Made().endpoints) {
      lines.push_back(e.address.ip.ToString() + " is " + std::to_string(e.number));
    }
    return lines;
  }
  void ApplyEndpoints(const std::vector<std::string>& endpoints) {
    ASlice slice = WebSlice();
    for (const std::string& endpoint : endpoints) slice.Ready(endpoint);
    MakeAfter({slice});
  }
};

// A drained endpoint loses its affinity number, like a removed endpoint. Existing affinity records
// with the old number no longer match.
TEST_F(AffinityRowsTest, S126ADrainedEndpointLosesItsNumberAndGetsAnotherOne) {
  MakeAfter({Sticky(), WebSlice().Ready("10.0.0.1").Ready("10.0.0.2")});
  MakeAfter({WebSlice().Ready("10.0.0.1").Weight(0).Ready("10.0.0.2")});
  EXPECT_THAT(EndpointNumbers(), ElementsAre("10.0.0.2 is 2"));
  ApplyEndpoints({"10.0.0.1", "10.0.0.2"});
  EXPECT_THAT(EndpointNumbers(), ElementsAre("10.0.0.1 is 3", "10.0.0.2 is 2"));
}

// The affinity record of a removed endpoint must not match a new endpoint.
TEST_F(AffinityRowsTest, S126AnEndpointThatReturnsOrIsNewGetsANumberThatWasNotUsed) {
  Apply({Sticky()});
  ApplyEndpoints({"10.0.0.1", "10.0.0.2"});
  ApplyEndpoints({"10.0.0.1"});
  EXPECT_THAT(EndpointNumbers(), ElementsAre("10.0.0.1 is 1"));
  ApplyEndpoints({"10.0.0.1", "10.0.0.2"});
  EXPECT_THAT(EndpointNumbers(), ElementsAre("10.0.0.1 is 1", "10.0.0.2 is 3"));
  ApplyEndpoints({"10.0.0.1", "10.0.0.9"});
  EXPECT_THAT(EndpointNumbers(), ElementsAre("10.0.0.1 is 1", "10.0.0.9 is 4"));
}

TEST_F(AffinityRowsTest, WithoutAFreePortNumberThereIsNoAffinityAndThatIsReported) {
  numbers_.Of(NumberPool::kStickyPorts, Family::kIpv4) = NumberAllocator(0);
  MakeAfter({Sticky(), WebSlice().Ready("10.0.0.1")});
  EXPECT_THAT(OwnLines(), ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 1.0.0.1"));
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("session affinity is not programmed: at most 49151")));
}

TEST_F(AffinityRowsTest, WithMoreEndpointsThanNumbersThereIsNoAffinityAndNoNumberTaken) {
  ASlice slice = WebSlice();
  for (uint32_t i = 0; i < kMaxStickyEndpoint; ++i) {
    slice.Ready("10.1." + std::to_string(i >> 8) + "." + std::to_string(i & 255));
  }
  // The endpoint is only in the local endpoint set.
  slice.Endpoint("10.0.0.1", kServingTerminating, true);
  MakeAfter({Sticky().NodePort(30080).ExternalLocal(), slice});
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("session affinity is not programmed")));
  EXPECT_THAT(Texts(desired_.new_numbers), ElementsAre("group 1 of IPv4", "group 2 of IPv4"));
  EXPECT_EQ(numbers_.Of(NumberPool::kStickyPorts, Family::kIpv4).Allocate(), 1u);
}

// Each allocated number must be in use or released, because the number would be leaked otherwise.
TEST_F(AffinityRowsTest, EveryNumberTakenIsNamed) {
  numbers_.Of(NumberPool::kStickyPorts, Family::kIpv4) = NumberAllocator(1);
  for (int i = 0; i < 3; ++i) {
    MakeAfter({Sticky(), WebSlice().Ready("10.0.0.1")});
    EXPECT_THAT(Findings(), IsEmpty()) << i;
    ASSERT_THAT(desired_.new_numbers, SizeIs(2)) << i;
    MakeAfter({i == 0 ? Change(Web()) : i == 1 ? NoSlice("shop/web-1") : NoService("shop/web")});
    EXPECT_THAT(desired_.old_numbers, SizeIs(2)) << i;
  }
}

}  // namespace
}  // namespace svcmap::proxy
