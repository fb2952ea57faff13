// Tests that restart svcmap-kube and svcmapd in every order, under traffic and with changes to the
// cluster.
#include <filesystem>

#include "tests/kube/bridge_world.h"
#include "tests/netns/listing.h"

namespace svcmap::testing {
namespace {

enum class Step { kKillBridge, kKillAgent, kStartBridge, kStartAgent, kLoseState };

struct Order {
  const char* name;
  std::vector<Step> steps;
};

void PrintTo(const Order& order, std::ostream* out) { *out << order.name; }

const Order kOrders[] = {
    {"TheBridgeAlone", {Step::kKillBridge, Step::kStartBridge}},
    {"TheAgentAlone", {Step::kKillAgent, Step::kStartAgent}},
    {"TheAgentAloneAndItsState", {Step::kKillAgent, Step::kLoseState, Step::kStartAgent}},
    {"BothTheAgentComesFirst",
     {Step::kKillBridge, Step::kKillAgent, Step::kStartAgent, Step::kStartBridge}},
    {"BothTheBridgeComesFirst",
     {Step::kKillAgent, Step::kKillBridge, Step::kStartBridge, Step::kStartAgent}},
    {"BothAndTheStateTheBridgeComesFirst",
     {Step::kKillAgent, Step::kKillBridge, Step::kLoseState, Step::kStartBridge,
      Step::kStartAgent}},
};

class OrderTest : public BridgeTest, public ::testing::WithParamInterface<Order> {
 protected:
  absl::Status Take(Step step) {
    switch (step) {
      case Step::kKillBridge:
        return KillBridge();
      case Step::kKillAgent:
        return KillAgent();
      case Step::kStartBridge:
        return StartBridge();
      case Step::kStartAgent:
        return StartLastingAgent();
      case Step::kLoseState:
        std::filesystem::remove_all(state_folder());
        break;
    }
    return absl::OkStatus();
  }
};
INSTANTIATE_TEST_SUITE_P(, OrderTest, ::testing::ValuesIn(kOrders),
                         [](const ::testing::TestParamInfo<Order>& info) {
                           return info.param.name;
                         });

TEST_P(OrderTest, S342_NothingIsPrunedThatStillExists) {
  server().Put(Objects{Web("shop/web", kWeb), Web("shop/gone", kOther)} +
               WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/gone", {&pod_b()}));
  ASSERT_OK(StartLastingAgent());
  ASSERT_OK(StartBridge());
  ASSERT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK(Until(kOther, "pod-b"));
  ASSERT_OK_AND_ASSIGN(auto traffic, StartTraffic(kWeb, "pod-a"));

  bool changed = false;
  for (const Step step : GetParam().steps) {
    const bool coming = step == Step::kStartBridge || step == Step::kStartAgent;
    if (coming && !changed) {  // Make the change while one of the processes is stopped.
      server().Remove({ServiceRef("shop/gone")});
      server().Put(Objects{Web("shop/third", kThird)} + WebSlices("shop/third", {&pod_b()}));
      changed = true;
    }
    ASSERT_OK(Take(step));
    ASSERT_OK(traffic->Go(50));
  }
  EXPECT_OK(Until(kThird, "pod-b"));
  EXPECT_OK(Until(kOther, ""));
  server().Put(WebSlices("shop/third", {&pod_a()}));
  EXPECT_OK(Until(kThird, "pod-a"));
  ASSERT_OK(traffic->Go(50));
  EXPECT_OK(traffic->Stop().Check());
  ASSERT_OK(UntilTheAgentHasAll());
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

}  // namespace
}  // namespace svcmap::testing
