// Tests the rows and numbers of Services with session affinity (docs/specification.md, section 3.6;
// docs/decisions/0002).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/proxy/desired_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
  EXPECT_THAT(Texts(desired_.new_numbers), ElementsAre("group 1", "group 2"));
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
