// Tests that the ruleset is constant. Changes write only elements, and these elements match the
// agent's dump.
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"

namespace svcmap::testing {
namespace {

// Generates random valid changes, including conflicts, duplicates and reverts.
class RandomChanges {
 public:
  explicit RandomChanges(uint32_t seed) : random_(seed) {}

  v1::Change Next() {
    const int service = Below(40);
    const std::string key = absl::StrCat("shop/s", service);
    switch (Below(10)) {
      case 0:
        return Removal(ServiceRef(key));
      case 1:
        return Removal(SliceRef(absl::StrCat(key, "-", Below(3))));
      case 2:
        return Upsert(ANode(kAgentNode)
                          .InternalIp(Below(2) ? kNodeV4 : kNodeSecondV4)
                          .InternalIp(Below(2) ? kNodeV6 : kNodeSecondV6));
      case 3:
        return Below(2) ? Removal(ServiceCidrRef("extra"))
                        : Upsert(AServiceCidr(
                              "extra", {absl::StrCat("10.", 97 + Below(3), ".0.0/", 16 + Below(8)),
                                        "fd00:97::/112"}));
      case 4:
      case 5:
      case 6:
        return Upsert(RandomService(service, key));
      default:
        return Upsert(RandomSlice(service, key));
    }
  }

 private:
  int Below(int limit) { return std::uniform_int_distribution<>(0, limit - 1)(random_); }
  Protocol RandomProtocol() { return kProtocols[Below(3)]; }

  AService RandomService(int service, const std::string& key) {
    AService made(key);
    // Sometimes two Services claim the same address.
    const Address ip = ClusterIp(10 + service - (Below(10) == 0 ? 1 : 0));
    switch (Below(4)) {
      case 0:
        made.ClusterIp(ip.v4);
        break;
      case 1:
        made.ClusterIp(ip.v6);
        break;
      default:
        made.ClusterIps(ip.v4, ip.v6);
    }
    const int ports = 1 + Below(3);
    for (int i = 0; i < ports; ++i) {
      made.Port(absl::StrCat("p", i), 80 + i, RandomProtocol());
      if (Below(3) == 0) made.NodePort(30000 + 3 * service + i);
    }
    if (Below(4) == 0) made.ExternalIp(absl::StrCat("198.51.100.", 1 + Below(50)));
    if (Below(4) == 0) made.LoadBalancerIp(absl::StrCat("2001:db8:51::", 1 + Below(50)));
    return made.CreatedAt(1000 + Below(100));
  }

  ASlice RandomSlice(int service, const std::string& key) {
    ASlice slice(key);
    const bool v6 = Below(2) == 1;
    slice.Named(absl::StrCat("s", service, "-", Below(3)));
    const int endpoints = Below(10) == 0 ? 60 : Below(6);
    for (int i = 0; i < endpoints; ++i) {
      const int host = 1 + Below(200);
      slice.Endpoint(v6 ? absl::StrCat("fd00:10:244:1::", host) : absl::StrCat("10.244.1.", host),
                     Below(2) ? kAgentNode : "n2");
      if (Below(8) == 0) slice.Terminating();
    }
    for (int i = 0; i < 3; ++i) {
      slice.Port(absl::StrCat("p", i), 8000 + Below(3), RandomProtocol());
    }
    return slice;
  }

  std::mt19937 random_;
};

class ConstancyTest : public ServiceTest {};

TEST_F(ConstancyTest, AThousandChangesLeaveTheRulesetAsItWas) {
  ASSERT_OK_AND_ASSIGN(const std::string before, Nft(node().netns(), "-t list ruleset"));
  const char* wanted = std::getenv("SVCMAP_TEST_SEED");
  const uint32_t seed = wanted != nullptr ? static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10))
                                          : std::random_device{}();
  SCOPED_TRACE(absl::StrCat("SVCMAP_TEST_SEED=", seed));
  RandomChanges changes(seed);
  std::mt19937 sizes(seed + 1);
  ASSERT_OK_AND_ASSIGN(const auto stream, agent().Push());
  for (int sent = 0; sent < 1000;) {
    std::vector<v1::Change> batch(1 + sizes() % 10);
    for (v1::Change& change : batch) change = changes.Next();
    sent += static_cast<int>(batch.size());
    ASSERT_OK_AND_ASSIGN(const v1::Ack ack, stream->Batch(batch));
    ASSERT_OK(CheckAck(ack));
  }
  ASSERT_OK_AND_ASSIGN(const std::string after, Nft(node().netns(), "-t list ruleset"));
  EXPECT_EQ(before, after);

  // The kernel contains exactly the rows that the agent reports as applied.
  ExpectAppliedIsInTheKernel(agent(), node().netns());
  ASSERT_OK_AND_ASSIGN(const std::string plan, agent().Dump(v1::DumpRequest::PLAN));
  EXPECT_EQ(plan.find("element"), std::string::npos) << plan;

  // After the deletion of all Services, their elements are gone.
  ASSERT_OK_AND_ASSIGN(const v1::Ack ack, stream->Snapshot({}));
  ASSERT_OK(CheckAck(ack));
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  for (const v1::MapCount& map : status.maps()) {
    // The marker and the pod ranges from the command line always exist.
    if (map.name() == "marker" || map.name().find("-sources") != std::string::npos) continue;
    EXPECT_EQ(map.elements(), 0u) << map.ShortDebugString();
  }
  ASSERT_OK_AND_ASSIGN(const std::string empty, Nft(node().netns(), "-t list ruleset"));
  EXPECT_EQ(before, empty);
}

}  // namespace
}  // namespace svcmap::testing
