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
#include "tests/support/damage.h"

namespace svcmap::testing {
namespace {

using LossCountTest = LossTest;

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

// No packet is lost while svcmapd repairs its tables, if the damage itself loses no packets.
class RepairLossTest : public LossTest {
 protected:
  absl::StatusOr<uint64_t> Repairs() {
    const absl::StatusOr<v1::GetStatusResponse> status = agent().GetStatus();
    if (!status.ok()) return status.status();
    return status->repairs();
  }

  // Damages the tables and waits until svcmapd has repaired the damage.
  absl::Status DamageAndRepair(const Damage& damage) {
    const absl::StatusOr<uint64_t> before = Repairs();
    if (!before.ok()) return before.status();
    const absl::StatusOr<std::string> script = damage.script(node().netns());
    if (!script.ok()) return script.status();
    if (absl::Status status = RunNft(node().netns(), *script); !status.ok()) return status;
    absl::Status status = Eventually("a repair of " + damage.name, [&] {
      const absl::StatusOr<uint64_t> now = Repairs();
      return now.ok() && *now > *before;
    });
    return status.ok() ? WaitUntilServing() : status;
  }
};

TEST_F(RepairLossTest, DamageThatInterruptsNoTraffic) {
  const char* const names[] = {"DeletedFilterRule", "AddedElements", "AddedRule",
                               "AddedSet",          "DeletedMarker", "DeletedFilterChain",
                               "FlushedSetOfRanges"};
  const int64_t rewrites = Rewrites(21);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    const Damage* const damage = FindDamage(names[static_cast<size_t>(i) % std::size(names)]);
    ASSERT_NE(damage, nullptr);
    ASSERT_FALSE(damage->interrupts) << damage->name;
    ASSERT_OK(DamageAndRepair(*damage)) << agent().log();
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("repair", rewrites);
}

// The counters of the packet-loss tests detect each kind of loss.

std::string PortOf(const CountedService& service) { return absl::StrCat(service.source_port()); }

// Another process breaks three Services while svcmapd is stopped.
TEST_F(LossCountTest, EachKindOfLossIsCounted) {
  constexpr int64_t kMinimum = 10;
  const CountedService& untranslated = counted(0);
  const CountedService& dropped = counted(1);
  const CountedService& misdirected = counted(2);
  const CountedService& other = counted(3);
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  ASSERT_OK(RunNft(
      node().netns(),
      absl::StrCat("delete element ip svcmap service-ips { ", untranslated.cluster_ip(),
                   " . udp . ", kCountedPort, " }\n", "insert rule ip svcmap services ip daddr ",
                   dropped.cluster_ip(), " drop\n", "insert rule ip svcmap services ip daddr ",
                   misdirected.cluster_ip(), " udp dport ", kCountedPort, " dnat to ",
                   CountedEndpoint(*other.endpoints.begin()), ":", other.target_port(), "\n",
                   "flush chain ip svcmap cluster-ips-check\n")));
  ASSERT_OK(LetTrafficFlow());
  LossCounts counts;
  TrafficReport tcp;
  ASSERT_NO_FATAL_FAILURE(StopTraffic(counts, tcp));
  EXPECT_GT(counts.untranslated[PortOf(untranslated)], kMinimum);
  EXPECT_EQ(counts.untranslated.size(), 1u);
  EXPECT_EQ(counts.escaped, counts.untranslated);  // Without the reject of svcmapd.
  for (int i = 0; i < static_cast<int>(counted_services()); ++i) {
    const int64_t count = counts.dropped[PortOf(counted(i))];
    if (i == dropped.number) {
      EXPECT_GT(count, kMinimum);
    } else {
      EXPECT_EQ(count, 0) << "Service " << i;
    }
  }
  ASSERT_EQ(counts.misdirected.size(), 1u);
  EXPECT_EQ(counts.misdirected.begin()->first.find(PortOf(misdirected)), 0u);
  EXPECT_GT(counts.misdirected.begin()->second, kMinimum);
}

}  // namespace
}  // namespace svcmap::testing
