// Compares the behavior of the kernel, which svcmapd has programmed, with the reference model in
// random scenarios.
//
// `SVCMAP_SCENARIOS=3000` sets the number of scenarios (default 100).
// `SVCMAP_SEED=17` sets the seed of the first scenario (default 1). The seed is incremented for
// each further scenario. `SVCMAP_SEED=17,4` runs exactly these seeds in this order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/differential/differential_world.h"
#include "tests/differential/open_connections.h"
#include "tests/differential/probes.h"
#include "tests/differential/random_cluster.h"
#include "tests/differential/random_settings.h"
#include "tests/netns/service_world.h"

namespace svcmap::testing {
namespace {

// Number of changes per scenario. All probes are repeated after each change.
constexpr int kChanges = 2;
// Percentage of changes during which connections stay open. The cleanup takes more than a second.
constexpr int kOpenConnections = 30;
constexpr size_t kMismatchesShown = 6;  // Maximum number of mismatches printed per scenario.
constexpr int kFailuresShown = 3;       // Number of failed scenarios after which the test stops.

std::string Environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

bool GivenOneByOne() { return Environment("SVCMAP_SEED", "").find(',') != std::string::npos; }

std::vector<uint64_t> Seeds() {
  const std::vector<std::string> texts = absl::StrSplit(Environment("SVCMAP_SEED", "1"), ',');
  std::vector<uint64_t> seeds;
  for (const std::string& text : texts) seeds.push_back(std::stoull(text));
  if (GivenOneByOne()) return seeds;
  const uint64_t count = std::stoull(Environment("SVCMAP_SCENARIOS", "100"));
  while (seeds.size() < count) seeds.push_back(seeds.back() + 1);
  return seeds;
}

std::string TextOf(const Objects& objects) {
  std::string text;
  for (const v1::Object& object : objects) absl::StrAppend(&text, object.ShortDebugString(), "\n");
  return text;
}

struct Scenario {
  explicit Scenario(uint64_t seed)
      : seed(seed),
        dice(seed),
        settings(RandomSettings(dice)),
        cluster(dice.Number(), absl::StrCat("s", seed), settings.pod_cidrs) {}

  uint64_t seed;
  Dice dice;
  ScenarioSettings settings;
  RandomCluster cluster;
};

// Runs random scenarios sequentially. Scenarios with the same settings share an agent.
class DifferentialTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto world = DifferentialWorld::Create();
    ASSERT_OK(world.status()) << "packet tests need network namespaces (root)";
    world_ = *std::move(world);
  }

  // Returns true if the kernel and the model agree in this scenario.
  bool Run(Scenario& scenario) {
    agreed_ = false;
    RunIt(scenario);
    return agreed_;
  }

  // Returns the number of probes for each rule that determined the result of a probe.
  const std::map<std::string, size_t>& probes() const { return probes_; }

 private:
  void RunIt(Scenario& scenario) {
    const std::string settings = scenario.settings.ToString();
    if (settings != running_) {
      previous_.clear();
      ASSERT_OK(world_->RestartAgent(scenario.settings.Flags()));
      running_ = settings;
    }
    Objects objects = scenario.cluster.Render();
    std::string history = "from the start";
    ASSERT_OK_AND_ASSIGN(const auto stream, world_->agent().Push());
    const auto snapshot = stream->Snapshot(objects);
    ASSERT_OK(Taken(snapshot)) << Repeat(scenario) << TextOf(objects);
    uint64_t revision = snapshot->revision();
    FirstSeen first_seen;
    AddNewServices(objects, 0, first_seen);
    AffinityMemory affinity;
    ReferenceModel model = ModelOf(scenario, objects, first_seen);
    for (int change = 0;; ++change) {
      ASSERT_OK(world_->agent().AwaitRemovals());
      ASSERT_OK(FlushConntrack(world_->node().netns()));
      ProbeReport report = Probe(world_->sources(), model, scenario.dice, affinity);
      Ping(world_->sources(), model, scenario.dice, report);
      CompareExplanations(world_->agent(), world_->sources(), model, scenario.dice, report);
      if (!Agrees(scenario, history, objects, report)) return;
      if (change == kChanges) break;
      OpenConnections connections;
      if (scenario.dice.Chance(kOpenConnections)) {
        connections.Open(world_->sources(), model, scenario.dice);
        connections.Follow(objects, model);
      }
      // Sometimes puts two changes in one batch, for example a deletion and a new object.
      for (int i = scenario.dice.Chance(30) ? 2 : 1; i > 0; --i) {
        absl::StrAppend(&history, ", then: ", scenario.cluster.Change());
        const Objects after = scenario.cluster.Render();
        const auto batch = stream->Batch(Difference(objects, after));
        ASSERT_OK(Taken(batch)) << Repeat(scenario) << history << "\n" << TextOf(after);
        objects = after;
        AddNewServices(objects, std::exchange(revision, batch->revision()), first_seen);
        model = ModelOf(scenario, objects, first_seen);
        affinity.Keep(model.AffineEndpoints());
        connections.Follow(objects, model);
      }
      ProbeReport open;
      connections.CheckAndClose(model, open);
      if (!Agrees(scenario, history, objects, open)) return;
    }
    ASSERT_OK(world_->agent().CheckServing()) << Repeat(scenario) << history;
    previous_.push_back(scenario.seed);
    agreed_ = true;
  }

  static ReferenceModel ModelOf(const Scenario& scenario, const Objects& objects,
                                const FirstSeen& first_seen) {
    return ReferenceModel(scenario.settings.proxy, DifferentialWorld::NodeAddresses(), objects,
                          first_seen);
  }

  // Adds the Services of `objects` that the agent has received at this revision, and removes all
  // Services that are not in `objects`.
  static void AddNewServices(const Objects& objects, uint64_t revision, FirstSeen& first_seen) {
    FirstSeen after;
    for (const v1::Object& object : objects) {
      if (!object.has_service()) continue;
      const v1::ObjectMeta& metadata = object.service().metadata();
      const std::string key = absl::StrCat(metadata.namespace_(), "/", metadata.name());
      const auto known = first_seen.find(key);
      after[key] = known == first_seen.end() ? revision : known->second;
    }
    first_seen = std::move(after);
  }

  static absl::Status Taken(const absl::StatusOr<v1::Ack>& ack) {
    return ack.ok() ? CheckAck(*ack) : ack.status();
  }

  std::string Repeat(const Scenario& scenario) const {
    std::string text = absl::StrCat("Again: SVCMAP_SCENARIOS=1 SVCMAP_SEED=", scenario.seed,
                                    " differential_test\n");
    if (!previous_.empty()) {
      absl::StrAppend(&text, "With the scenario before it: SVCMAP_SEED=", previous_.back(), ",",
                      scenario.seed, " differential_test\n");
    }
    return absl::StrCat(text, "Settings: ", scenario.settings.ToString(), "\n");
  }

  // Counts the probes of the report. Returns true if it contains no mismatch.
  bool Agrees(const Scenario& scenario, const std::string& history, const Objects& objects,
              const ProbeReport& report) {
    for (const auto& [why, count] : report.count) probes_[why] += count;
    if (report.mismatches.empty()) return true;
    std::string text = absl::StrCat(Repeat(scenario), "State: ", history, "\n", TextOf(objects),
                                    report.mismatches.size(), " probes differ:\n");
    const size_t shown = std::min(report.mismatches.size(), kMismatchesShown);
    for (size_t i = 0; i < shown; ++i) absl::StrAppend(&text, "  ", report.mismatches[i], "\n");
    ADD_FAILURE() << text;
    return false;
  }

  std::unique_ptr<DifferentialWorld> world_;
  std::string running_;             // Settings of the running agent.
  std::vector<uint64_t> previous_;  // Seeds of the scenarios that the running agent has processed.
  std::map<std::string, size_t> probes_;
  bool agreed_ = false;
};

TEST_F(DifferentialTest, TheKernelAgreesWithTheReferenceModelInRandomScenarios) {
  const std::vector<uint64_t> seeds = Seeds();
  std::vector<std::unique_ptr<Scenario>> scenarios;
  for (const uint64_t seed : seeds) scenarios.push_back(std::make_unique<Scenario>(seed));
  if (!GivenOneByOne()) {  // Sorts the scenarios by settings, so that the test starts few agents.
    std::stable_sort(scenarios.begin(), scenarios.end(), [](const auto& a, const auto& b) {
      return a->settings.ToString() < b->settings.ToString();
    });
  }
  std::cout << seeds.size() << " scenarios from seed " << seeds.front() << "\n";
  int failures = 0;
  for (const auto& scenario : scenarios) {
    if (!Run(*scenario) && ++failures == kFailuresShown) break;
  }
  std::cout << "Probes by the rule that decided:\n";
  for (const auto& [why, count] : probes()) std::cout << "  " << why << ": " << count << "\n";
}

}  // namespace
}  // namespace svcmap::testing
