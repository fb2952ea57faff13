// No packet is lost while svcmapd restarts.
//
// SVCMAP_SEED=17 sets the seed for the moments of the kills (default: random).
#include <atomic>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/loss/loss_world.h"

namespace svcmap::testing {
namespace {

class RestartLossTest : public LossTest {
 protected:
  // Starts the agent, waits until it has restored its state, and sends the same objects again.
  absl::Status Restart(const std::vector<std::string>& flags = {}) {
    if (absl::Status status = StartAgent(flags); !status.ok()) return status;
    if (absl::Status status = agent().Replace(Everything()); !status.ok()) return status;
    return WaitUntilServing();
  }

  void RemoveState() { std::filesystem::remove_all(state_folder()); }
};

// The flags change rules, but the pod CIDR always contains the clients of counted Services.
TEST_F(RestartLossTest, ChangedRuleset) {
  const std::vector<std::string> variants[] = {{"--cluster-cidr", "10.240.0.0/12,fd00:10:244::/48"},
                                               {"--service-counters"},
                                               {"--answer-ping"},
                                               {"--port-ranges"},
                                               {"--repeat-lookups", "on"},
                                               {"--repeat-lookups", "off"},
                                               {}};
  ExpectNoLossDuring("changed ruleset", Rewrites(14), [&](int64_t i) {
    const absl::Status status = EndAgent(/*kill=*/i % 2 == 0);
    return status.ok() ? Restart(variants[static_cast<size_t>(i) % std::size(variants)]) : status;
  });
}

// Kills the agent at a random moment while a controller sends one batch after the other.
class KillDuringChangesTest : public RestartLossTest {
 protected:
  void SetUp() override {
    RestartLossTest::SetUp();
    const auto seed = static_cast<uint64_t>(
        NumberFromEnvironment("SVCMAP_SEED", static_cast<int64_t>(std::random_device{}())));
    std::cout << "SVCMAP_SEED=" << seed << "\n";
    random_.seed(seed);
  }

  void Run(const std::string& scenario, bool keep_state) {
    int64_t batches = 0;
    ExpectNoLossDuring(scenario, Rewrites(10), [&](int64_t) -> absl::Status {
      const absl::StatusOr<int64_t> acknowledged = ChangeUntilKilled();
      if (!acknowledged.ok()) return acknowledged.status();
      batches += *acknowledged;
      if (!keep_state) RemoveState();
      // Some runs of the agent end while they start.
      if (Below(4) == 0) {
        const auto short_lived = Agent::Launch(node().netns(), Flags());
        if (!short_lived.ok()) return short_lived.status();
        std::this_thread::sleep_for(Moment(100));
        if (absl::Status status = (*short_lived)->Kill(); !status.ok()) return status;
        if (!keep_state) RemoveState();
      }
      return Restart();
    });
    std::cout << batches << " acknowledged batches\n";
  }

 private:
  static constexpr int kOthers = 100;

  int Below(int limit) { return std::uniform_int_distribution<>(0, limit - 1)(random_); }
  std::chrono::microseconds Moment(int milliseconds) {
    return std::chrono::microseconds(Below(milliseconds * 1000));
  }

  // Returns the number of acknowledged batches.
  absl::StatusOr<int64_t> ChangeUntilKilled() {
    std::atomic<bool> killed = false;
    absl::Status changed;
    int64_t batches = 0;
    std::thread controller([&] {
      while (!killed) {
        changed = ChangeEverything();
        if (changed.ok()) ++batches;
        if (!changed.ok()) break;
      }
      if (killed) changed = absl::OkStatus();  // The agent was killed before its answer.
    });
    std::this_thread::sleep_for(Moment(150));
    killed = true;
    absl::Status status = agent().Kill();
    controller.join();  // Uses the client of the agent until then.
    world()->agent.reset();
    status.Update(changed);
    if (!status.ok()) return status;
    return batches;
  }

  // Changes all counted Services, and the number of endpoints of many others.
  absl::Status ChangeEverything() {
    ++round_;
    const std::vector<CountedService> changed = EachCounted([&](CountedService& service) {
      const int number = service.number;
      service.affinity_seconds = 0;
      if (number % 2 == 1) {
        service.key = absl::StrCat(round_ % 2 == 0 ? "renamed" : "counted", "/s", number);
      }
      service.endpoints.clear();
      const int count = 1 + (round_ * 5 + number) % 12;
      for (int i = 0; i < count; ++i) service.endpoints.insert(number * 16 + i + round_ % 2 * 4);
      if (number >= 4 && round_ / (number - 3) % 2 == 0) {
        service.affinity_seconds = kCountedAffinitySeconds;
      }
    });
    std::vector<v1::Change> others;
    for (int i = 0; i < kOthers; ++i) {
      const bool removed = (round_ + i) % 3 == 0;
      if (removed) {
        others.push_back(Removal(ServiceRef(absl::StrCat("other/s", i))));
        continue;
      }
      others.push_back(Upsert(OtherService(i)));
      for (const v1::Object& slice : OtherSlices(i, 2 + (round_ + i) % 14)) {
        others.push_back(Upsert(slice));
      }
    }
    return Change(changed, std::move(others));
  }

  std::mt19937_64 random_;
  int round_ = 0;
};

TEST_F(KillDuringChangesTest, WithSavedState) { Run("kill during changes, with state", true); }

TEST_F(KillDuringChangesTest, WithoutSavedState) {
  Run("kill during changes, without state", false);
}

}  // namespace
}  // namespace svcmap::testing
