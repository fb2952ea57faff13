#include "proxy/desired/sticky.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/unit/proxy/desired_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

// Tests a new run that finds the affinity numbers of the previous run in the kernel.
class AffinityMemoryTest : public DesiredWorld {
 protected:
  void StartOver() {
    numbers_ = Numbers();
    memory_ = AffinityMemory();
    before_ = {};
  }
  void Remember(const std::vector<nft::Element>& elements) {
    memory_.Remember(Family::kIpv4, elements, numbers_);
  }
  static nft::Element Element(uint32_t choice, const std::string& ip,
                              const std::string& comment = "shop/web:") {
    const nft::FieldBytes key = nft::FieldBytes().AppendU32Be(choice);
    const nft::FieldBytes data =
        nft::FieldBytes().Append(Ip(ip).bytes()).AppendU16Be(8080).PadToWord();
    return {.key = {key.bytes().begin(), key.bytes().end()},
            .data = {data.bytes().begin(), data.bytes().end()},
            .comment = comment};
  }
  // Returns the affinity numbers of the Service port and of its endpoints, for example "7: 10.0.0.1
  // is 3".
  std::string Made() const {
    const Affinity& affinity = *desired_.rows.ports.at(0).affinity;
    std::string text = std::to_string(affinity.port_number) + ":";
    for (const Affinity::Endpoint& e : affinity.endpoints) {
      text += " " + e.address.ip.ToString() + " is " + std::to_string(e.number);
    }
    return text;
  }
  void MakeWeb() {
    Apply({Web().Affinity(10800), WebSlice().Ready("10.0.0.1").Ready("10.0.0.2")});
    Make();
  }
};

TEST_F(AffinityMemoryTest, WhatIsForgottenIsFreeAgain) {
  Remember({Element(0x10001, "10.0.0.1", "shop/other:"), Element(0x30001, "10.0.0.1")});
  EXPECT_FALSE(memory_.empty());
  memory_.Forget(numbers_);
  EXPECT_TRUE(memory_.empty());
  MakeWeb();
  EXPECT_EQ(Made().substr(0, 2), "4:") << "after the fresh ones";
  NumberAllocator& ports = numbers_.Of(NumberPool::kStickyPorts, Family::kIpv4);
  EXPECT_TRUE(ports.Reserve(1));
  EXPECT_TRUE(ports.Reserve(3));
}

TEST_F(AffinityMemoryTest, ANumberIsTakenOnce) {
  Remember({Element(0x70003, "10.0.0.1")});
  MakeWeb();
  EXPECT_EQ(Made(), "7: 10.0.0.1 is 3 10.0.0.2 is 4");
  Apply({NoService("shop/web")});
  Make();
  MakeWeb();
  EXPECT_EQ(Made(), "8: 10.0.0.1 is 1 10.0.0.2 is 2") << "its records are nobody's now";
}

TEST_F(AffinityMemoryTest, DamagedAndForeignElementsAreIgnored) {
  nft::Element short_key = Element(0x70001, "10.0.0.1");
  short_key.key.pop_back();
  nft::Element short_data = Element(0x70001, "10.0.0.1");
  short_data.data.resize(5);
  nft::Element no_data = Element(0x70001, "10.0.0.1");
  no_data.data.clear();
  const struct {
    const char* name;
    std::vector<nft::Element> elements;
    std::string made;
  } cases[] = {
      {"nothing", {}, "1: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"a key of three bytes", {short_key}, "1: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"an address without a whole port", {short_data}, "1: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"no address", {no_data}, "1: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"another Service's",
       {Element(0x70001, "10.0.0.1", "a/b:")},
       "8: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"no comment", {Element(0x70001, "10.0.0.1", "")}, "8: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"port number 0", {Element(0x1, "10.0.0.1")}, "1: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"a port number out of range",
       {Element(Choice(kMaxStickyPort + 1, 1), "10.0.0.1")},
       "1: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"another port's number",
       {Element(0x70001, "10.0.0.1", "a/b:"), Element(0x70002, "10.0.0.1")},
       "8: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"a second port number",
       {Element(0x70003, "10.0.0.1"), Element(0x80004, "10.0.0.2")},
       "7: 10.0.0.1 is 3 10.0.0.2 is 4"},
      {"endpoint number 0", {Element(0x70000, "10.0.0.1")}, "7: 10.0.0.1 is 1 10.0.0.2 is 2"},
      {"two numbers of one endpoint",
       {Element(0x70003, "10.0.0.1"), Element(0x70005, "10.0.0.1")},
       "7: 10.0.0.1 is 3 10.0.0.2 is 6"},
      // Inconsistent elements, for example after a change by another process.
      {"two endpoints with one number",
       {Element(0x70003, "10.0.0.1"), Element(0x70003, "10.0.0.2")},
       "7: 10.0.0.1 is 3 10.0.0.2 is 4"},
  };
  for (const auto& c : cases) {
    StartOver();
    Remember(c.elements);
    MakeWeb();
    EXPECT_EQ(Made(), c.made) << c.name;
  }
}

}  // namespace
}  // namespace svcmap::proxy
