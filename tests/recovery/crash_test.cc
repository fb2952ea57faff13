// Kills the agent at random moments under traffic and updates. The restarted agent has the accepted
// state, and no connection to an unchanged Service fails.
//
// SVCMAP_CRASHES=1000 sets the number of crashes (default: 20).
// SVCMAP_SEED=17 sets the seed for the moments, changes and controller actions (default: random).
#include <algorithm>
#include <atomic>
#include <iostream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/recovery/recovery_world.h"

namespace svcmap::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kOtherServices = 200;
constexpr int kEndpointsEach = 3;
constexpr milliseconds kBetweenChanges{2};

// A controller that changes the "other" Services at full speed and records acknowledged versions.
// Each change sets the port of a Service to its version, so that elements in the kernel show their
// version.
class Controller {
 public:
  explicit Controller(uint64_t seed)
      : random_(seed), sent_(kOtherServices, 0), acked_(kOtherServices, 0) {}

  // Sends a snapshot that contains new versions of all "other" Services.
  absl::Status Snapshot(Agent& agent, const Objects& constant) {
    const absl::StatusOr<std::unique_ptr<PushStream>> stream = agent.Push();
    if (!stream.ok()) return stream.status();
    const absl::StatusOr<v1::Ack> ack = Snapshot(**stream, constant);
    return ack.ok() ? CheckAck(*ack) : ack.status();
  }

  // Sends changes, sometimes after a snapshot, until the agent exits or `stop` is set. Returns an
  // error for an unexpected answer.
  absl::Status Churn(Agent& agent, const Objects& constant, const std::atomic<bool>& stop) {
    const absl::StatusOr<std::unique_ptr<PushStream>> stream = agent.Push();
    if (!stream.ok()) return absl::OkStatus();
    if (Below(3) == 0) {
      const absl::StatusOr<v1::Ack> ack = Snapshot(**stream, constant);
      if (!ack.ok()) return absl::OkStatus();
      if (absl::Status status = CheckAck(*ack); !status.ok()) return status;
    }
    auto next = steady_clock::now();
    while (!stop) {
      std::vector<v1::Change> changes;
      std::vector<size_t> changed;
      const int count = 1 + Below(3);
      for (int i = 0; i < count; ++i) {
        const int service = Below(kOtherServices);
        Upgrade(service);
        changed.push_back(static_cast<size_t>(service));
        for (const v1::Object& object : ObjectsOf(service)) changes.push_back(Upsert(object));
      }
      const absl::StatusOr<v1::Ack> ack = (*stream)->Batch(changes);
      if (!ack.ok()) return absl::OkStatus();
      if (absl::Status status = CheckAck(*ack); !status.ok()) return status;
      for (const size_t service : changed) acked_[service] = sent_[service];
      ++batches_;
      next = std::max(next + kBetweenChanges, steady_clock::now() - kBetweenChanges);
      std::this_thread::sleep_until(next);
    }
    return absl::OkStatus();
  }

  // Checks the version of every Service in the kernel. The version must have been sent, and must
  // not be older than the acknowledged version.
  absl::Status CheckVersions(const ElementLists& elements) const {
    std::vector<int> found(kOtherServices, -1);
    const auto list = elements.find("ip svcmap service-ips");
    for (const std::string& element :
         list == elements.end() ? std::set<std::string>() : list->second) {
      // The port of an element such as "10.96.1.5 . tcp . 1017 comment "other/s4:p" : 3.0.0.9" is
      // the version.
      const std::string port_text = " . tcp . ";
      const std::string name_text = "comment \"other/s";
      const size_t port_at = element.find(port_text);
      const size_t name_at = element.find(name_text);
      if (port_at == std::string::npos || name_at == std::string::npos) continue;
      const int port = std::atoi(element.c_str() + port_at + port_text.size());
      const int service = std::atoi(element.c_str() + name_at + name_text.size());
      if (service < kOtherServices) found[static_cast<size_t>(service)] = port - kFirstPort;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] < acked_[i] || found[i] > sent_[i]) {
        return absl::DataLossError(absl::StrCat("other/s", i, " is in version ", found[i],
                                                ", sent was ", sent_[i], ", answered for ",
                                                acked_[i]));
      }
    }
    return absl::OkStatus();
  }

  int64_t batches() const { return batches_; }

 private:
  absl::StatusOr<v1::Ack> Snapshot(PushStream& stream, Objects objects) {
    for (int i = 0; i < kOtherServices; ++i) {
      Upgrade(i);
      for (v1::Object& object : ObjectsOf(i)) objects.push_back(std::move(object));
    }
    absl::StatusOr<v1::Ack> ack = stream.Snapshot(objects);
    if (ack.ok() && CheckAck(*ack).ok()) acked_ = sent_;
    return ack;
  }

  static constexpr int kFirstPort = 1000;

  int Below(int limit) { return std::uniform_int_distribution<>(0, limit - 1)(random_); }
  void Upgrade(int service) { ++sent_[static_cast<size_t>(service)]; }
  Objects ObjectsOf(int service) {
    return Objects{OtherService(service, kFirstPort + sent_[static_cast<size_t>(service)])} +
           OtherSlices(service, 1 + Below(kEndpointsEach));
  }

  std::mt19937_64 random_;
  std::vector<int> sent_;  // The last sent version of each Service.
  std::vector<int> acked_;
  int64_t batches_ = 0;
};

class CrashTest : public RecoveryTest {
 protected:
  void SetUp() override {
    RecoveryTest::SetUp();
    if (HasFatalFailure()) return;
    constant_ = Basics() + SteadyServices(*world());
  }
  Objects constant_;  // Objects that do not change.
};

TEST_F(CrashTest, S332_S342_KilledAtAnyMomentItComesBackAndThereIsNoInterruption) {
  const int64_t crashes = NumberFromEnvironment("SVCMAP_CRASHES", 20);
  const auto seed = static_cast<uint64_t>(
      NumberFromEnvironment("SVCMAP_SEED", static_cast<int64_t>(std::random_device{}())));
  SCOPED_TRACE(absl::StrCat("SVCMAP_SEED=", seed));
  std::mt19937_64 random(seed);
  const auto below = [&](int limit) {
    return std::uniform_int_distribution<>(0, limit - 1)(random);
  };
  Controller controller(seed + 1);
  ASSERT_OK(controller.Snapshot(agent(), constant_));
  RememberRules();
  if (HasFatalFailure()) return;
  ASSERT_OK_AND_ASSIGN(const auto traffic,
                       SteadyTraffic::Start(client().netns(), SteadyTargets(*world())));
  int alone = 0;
  int early = 0;
  for (int64_t crash = 1; crash <= crashes; ++crash) {
    SCOPED_TRACE(absl::StrCat("crash ", crash));
    {
      std::atomic<bool> stop = false;
      absl::Status churned;
      std::thread churn([&] { churned = controller.Churn(agent(), constant_, stop); });
      std::this_thread::sleep_for(std::chrono::microseconds(below(100'000)));
      const absl::Status killed = agent().Kill();
      stop = true;
      churn.join();
      ASSERT_OK(killed);
      ASSERT_OK(churned) << agent().log();
      world()->agent.reset();
    }
    // Some runs of the agent last at most 100 ms.
    while (below(4) == 0) {
      ++early;
      ASSERT_OK_AND_ASSIGN(const auto short_lived, Agent::Launch(node().netns(), Flags()));
      std::this_thread::sleep_for(std::chrono::microseconds(below(100'000)));
      ASSERT_OK(short_lived->Kill());
    }
    ASSERT_OK(StartAgent());
    if (below(3) == 0) {
      ++alone;
    } else {
      ASSERT_OK(controller.Snapshot(agent(), constant_));
    }
    ASSERT_OK(WaitUntilServing());
    ASSERT_OK(WaitUntilTheKernelIsAsWanted()) << agent().log();
    ASSERT_OK_AND_ASSIGN(const ElementLists wanted, ReadDump(agent(), v1::DumpRequest::DESIRED));
    ASSERT_OK(controller.CheckVersions(wanted)) << agent().log();
    ASSERT_OK(traffic->Go(20));
    ASSERT_EQ(traffic->Report().failures(), 0) << traffic->Report().ToString() << agent().log();
  }
  const TrafficReport report = traffic->Stop();
  EXPECT_OK(report.Check());
  std::cout << crashes << " crashes and " << early << " at the start, " << alone
            << " without a controller afterwards; " << controller.batches() << " batches\n"
            << report.ToString();
}

}  // namespace
}  // namespace svcmap::testing
