// No packet is lost while svcmapd restarts.
//
// SVCMAP_SEED=17 sets the seed for the moments of the kills (default: random).
#include <atomic>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/loss/loss_world.h"

namespace svcmap::testing {
namespace {

class RestartLossTest : public LossTest {
 protected:
  // Starts the agent, waits until it has restored its state, and sends the same objects again.
  absl::Status Restart(const std::vector<std::string>& flags = {}) {
    if (absl::Status status = StartAgent(flags); !status.ok()) return status;
    return SendEverything();
  }

  absl::Status SendEverything() {
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

// Kills the agent immediately after the Ack of a batch, while the old endpoint groups still exist.
class KillBeforeRemovalTest : public RestartLossTest {
 protected:
  // Replaces all counted Services with Services that have other keys. The agent deletes the
  // endpoints of a large Service before the old endpoint groups of counted Services.
  absl::Status ReplaceAndKill() {
    ++round_;
    std::vector<v1::Change> others = {Removal(ServiceRef(kLarge))};
    for (const v1::Object& slice : LargeSlices()) {
      const v1::ObjectMeta& meta = slice.endpoint_slice().metadata();
      others.push_back(Removal(SliceRef(absl::StrCat(meta.namespace_(), "/", meta.name()))));
    }
    const absl::Status status = Change(
        EachCounted([&](CountedService& service) {
          service.key = absl::StrCat(round_ % 2 == 0 ? "counted" : "renamed", "/s", service.number);
        }),
        std::move(others));
    if (!status.ok()) return status;
    return EndAgent(/*kill=*/true);
  }

  absl::Status AddLargeService() {
    return agent().Apply(Objects{AService(kLarge).ClusterIp(ClusterIp(72).v4).Port("p", 80)} +
                         LargeSlices());
  }

  // Returns the number of elements with an endpoint of a counted Service.
  absl::StatusOr<size_t> CountedElements() {
    const absl::StatusOr<Listing> listing = ReadListing(node().netns());
    if (!listing.ok()) return listing.status();
    std::set<std::string> endpoints;
    for (int i = 0; i < kCountedEndpointCount; ++i) endpoints.insert(CountedEndpoint(i));
    const auto list = listing->elements.find("ip svcmap endpoints");
    if (list == listing->elements.end()) return absl::NotFoundError("no endpoints");
    size_t count = 0;
    for (const std::string& element : list->second) {
      for (const absl::string_view word : absl::StrSplit(element, ' ')) {
        count += endpoints.contains(std::string(word)) ? 1 : 0;
      }
    }
    return count;
  }

 private:
  static constexpr char kLarge[] = "crowd/large";
  static constexpr int kLargeSlices = 16;
  static constexpr int kLargeEndpoints = 1000;  // In each slice.

  static Objects LargeSlices() {
    Objects slices;
    for (int i = 0; i < kLargeSlices; ++i) {
      ASlice slice(kLarge);
      slice.Named(absl::StrCat("large-", i)).Port("p", kPodPort);
      for (int j = 0; j < kLargeEndpoints; ++j) {
        slice.Endpoint(absl::StrCat("10.243.", i * 4 + j / 250, ".", 1 + j % 250), "n2");
      }
      slices.push_back(slice);
    }
    return slices;
  }

  int round_ = 0;
};

TEST_F(KillBeforeRemovalTest, OldGroupsAreDeletedByTheNextRun) {
  const int64_t kills = Rewrites(3);
  RememberRules();
  if (HasFatalFailure()) return;
  ASSERT_OK_AND_ASSIGN(const size_t expected, CountedElements());
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  int64_t before = 0, attempts = 0;
  for (; before < kills && attempts < 3 * kills + 5; ++attempts) {
    SCOPED_TRACE(absl::StrCat("attempt ", attempts));
    ASSERT_OK(AddLargeService());
    ASSERT_OK(ReplaceAndKill());
    ASSERT_OK_AND_ASSIGN(const size_t found, CountedElements());
    // All old groups still exist.
    if (found == 2 * expected) ++before;
    const bool keep_state = attempts % 2 == 0;
    if (!keep_state) RemoveState();
    ASSERT_OK(StartAgent());
    if (keep_state && attempts % 4 == 0) {  // No controller connects before the deletion.
      ASSERT_OK(WaitUntilTheKernelIsAsWanted()) << agent().log();
    }
    ASSERT_OK(SendEverything());
    ASSERT_OK(LetTrafficFlow());
    ASSERT_OK(WaitUntilTheKernelIsAsWanted()) << agent().log();
    ASSERT_OK_AND_ASSIGN(const size_t left, CountedElements());
    ASSERT_EQ(left, expected);
  }
  EXPECT_EQ(before, kills);
  std::cout << before << " of " << attempts << " kills before the removal\n";
  ExpectNoLoss("kill between switch and removal", before);
}

}  // namespace
}  // namespace svcmap::testing
