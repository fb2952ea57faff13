// Tests that each endpoint receives the same share of new connections, for any number of endpoints.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"

namespace svcmap::testing {
namespace {

constexpr int kMaxEndpoints = 1000;

// One pod simulates thousands of pods, which have addresses in 10.244.64.0/18 and
// fd00:10:244:4::/64.
class UniformityTest : public ServiceFamilyTest {
 protected:
  static void SetUpTestSuite() {
    if (world() == nullptr) return;
    auto pod = world()->topology->AddLocalPod("many");
    ASSERT_OK(pod);
    ASSERT_OK(world()->topology->AddPrefix(**pod, "10.244.64.0/18"));
    ASSERT_OK(world()->topology->AddPrefix(**pod, "fd00:10:244:4::/64"));
    auto server = EchoServer::Start((*pod)->netns());
    ASSERT_OK(server);
    many_ = *std::move(server);
    std::vector<Binding> bindings;
    for (int i = 0; i < kMaxEndpoints; ++i) {
      for (const bool v6 : {false, true}) {
        bindings.push_back({Protocol::kTcp, Ip(i, v6), kPodPort, absl::StrCat(i)});
      }
    }
    ASSERT_OK(many_->Listen(bindings));
  }
  static void TearDownTestSuite() { many_.reset(); }

  static std::string Ip(int i, bool v6) {
    return v6 ? absl::StrCat("fd00:10:244:4::", absl::Hex(i + 1))
              : absl::StrCat("10.244.", 64 + i / 250, ".", i % 250 + 1);
  }
  static Objects Serving(int endpoints) {
    ASlice slice("shop/web");
    slice.Port("tcp", kPodPort);
    for (int i = 0; i < endpoints; ++i) slice.Endpoint(Ip(i, v6()), kAgentNode);
    return {Web("shop/web", kWeb), slice};
  }

  // Opens `count` connections and expects an answer to each connection.
  Tally Draw(int count) {
    Tally tally = AskMany(pod_b().netns(), {.destination = kWeb.in(v6()), .port = 80}, count);
    EXPECT_EQ(tally.answered, count) << tally.first_failure;
    return tally;
  }

  static double ChiSquare(const Tally& tally, int endpoints) {
    const double expected = static_cast<double>(tally.answered) / endpoints;
    double sum = expected * (endpoints - static_cast<int>(tally.by_server.size()));
    for (const auto& [server, count] : tally.by_server) {
      sum += (count - expected) * (count - expected) / expected;
    }
    return sum;
  }

  static std::unique_ptr<EchoServer> many_;
};
std::unique_ptr<EchoServer> UniformityTest::many_;
INSTANTIATE_FAMILIES(UniformityTest);

TEST_P(UniformityTest, S38_EachOfNEndpointsGetsItsShare) {
  for (const int endpoints : {1, 2, 3, 7, 10, 17, 100, 1000}) {
    // 20,000 connections take seconds. The rules of both families pick in the same way.
    if (endpoints == 1000 && v6()) continue;
    SCOPED_TRACE(absl::StrCat(endpoints, " endpoints"));
    ASSERT_OK(agent().Apply(Serving(endpoints)));
    const Tally tally = Draw(std::clamp(20 * endpoints, 600, 20'000));
    if (endpoints == 1) {
      EXPECT_EQ(tally.by_server.size(), 1u);
    } else {
      EXPECT_LT(ChiSquare(tally, endpoints), ChiSquareBound(endpoints - 1)) << tally.ToString();
    }
  }
}

}  // namespace
}  // namespace svcmap::testing
