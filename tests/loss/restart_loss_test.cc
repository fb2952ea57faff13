// No packet is lost while svcmapd restarts.
#include <filesystem>

#include "tests/loss/loss_world.h"

namespace svcmap::testing {
namespace {

class RestartLossTest : public LossTest {
 protected:
  // Starts the agent, waits until it has restored its state, and sends the same objects again.
  absl::Status Restart(const std::vector<std::string>& flags = {}) {
    if (absl::Status status = StartAgent(flags); !status.ok()) return status;
    if (absl::Status status = agent().Replace(Everything()); !status.ok()) return status;
    if (absl::Status status = WaitUntilServing(); !status.ok()) return status;
    return LetTrafficFlow();
  }
};

TEST_F(RestartLossTest, KilledWithSavedState) {
  const int64_t rewrites = Rewrites(10);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    ASSERT_OK(agent().WaitUntilSaved());
    ASSERT_OK(EndAgent(/*kill=*/true));
    ASSERT_OK(Restart());
  }
  ExpectNoLoss("restart with state", rewrites);
}

TEST_F(RestartLossTest, KilledWithoutSavedState) {
  const int64_t rewrites = Rewrites(25);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    ASSERT_OK(EndAgent(/*kill=*/true));
    std::filesystem::remove_all(state_folder());
    ASSERT_OK(Restart());
  }
  ExpectNoLoss("restart without state", rewrites);
}

// The flags change rules, but the pod CIDR always contains the clients of counted Services.
TEST_F(RestartLossTest, ChangedRuleset) {
  const std::vector<std::string> variants[] = {
      {"--cluster-cidr", "10.240.0.0/12,fd00:10:244::/48"}, {"--service-counters"}, {}};
  const int64_t rewrites = Rewrites(21);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    ASSERT_OK(EndAgent(/*kill=*/i % 2 == 0));
    ASSERT_OK(Restart(variants[static_cast<size_t>(i) % std::size(variants)]));
  }
  ExpectNoLoss("changed ruleset", rewrites);
}

}  // namespace
}  // namespace svcmap::testing
