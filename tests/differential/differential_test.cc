// Compares the behavior of the kernel, which svcmapd has programmed, with the reference model in
// random scenarios.
//
// `SVCMAP_SCENARIOS=3000` sets the number of scenarios (default 100).
// `SVCMAP_SEED=17` sets the seed of the first scenario (default 1). The seed is incremented for
// each further scenario. `SVCMAP_SEED=17,4` runs exactly these seeds in this order.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/differential/dice.h"
#include "tests/differential/differential_world.h"
#include "tests/differential/model_service.h"
#include "tests/differential/probes.h"
#include "tests/differential/random_cluster.h"
#include "tests/differential/reference_model.h"
#include "tests/netns/service_world.h"
#include "tests/support/client.h"
#include "tests/support/environment.h"
#include "tests/support/topology.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

using Detector = ProxySettings::Detector;

// Open TCP connections through Services while the objects change. The model predicts which of them
// are reset because their endpoint is gone.
class OpenConnections {
 public:
  // Opens connections from random sources to random Service ports without affinity.
  void Open(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice);

  // The agent has applied `objects`, which `model` describes.
  void Follow(const Objects& objects, const ReferenceModel& model);

  // Compares all connections with the prediction for the last state, and closes them.
  void CheckAndClose(const ReferenceModel& model, ProbeReport& report);

 private:
  struct Connection {
    Packet packet;
    std::string service;   // For example "shop/web".
    std::string endpoint;  // For example "10.244.1.11:8080".
    bool range;            // True if the connection uses a port range, which is never reset.
    TcpFlow flow;
    // True if the agent resets the connection when its endpoint is gone, in all states so far.
    bool resets = true;
    // False if a change makes the result depend on the time of the agent's cleanup.
    bool predictable = true;
    bool endpoint_gone = false;
  };

  std::vector<Connection> connections_;
};

constexpr size_t kConnections = 6;
// Timeout of a write that should hang. If the agent deletes a connection during a write, only the
// first retransmission is reset, after more than 200 ms. Other writes use kPatience.
constexpr std::chrono::milliseconds kHangs{200};

std::string ServiceOf(const Prediction& prediction) {
  return prediction.service_port.substr(0, prediction.service_port.find(':'));
}

enum class Fate { kContinues, kReset, kHangs };

const char* Text(Fate fate) {
  constexpr const char* kTexts[] = {"open connection continues", "open connection is reset",
                                    "open connection hangs"};
  return kTexts[static_cast<size_t>(fate)];
}

// Writes until a write fails, because the agent deletes stale connections with a delay.
absl::Status AwaitFailure(TcpFlow& flow, Fate fate) {
  const auto timeout = fate == Fate::kHangs ? kHangs : OnThisMachine(kPatience);
  absl::Status status;
  Eventually("a failed write", [&] {
    status = flow.Exchange(1, timeout);
    return !status.ok();
  }).IgnoreError();
  return status;
}

// Returns the result of the connection's next segment, which has no entry in connection tracking.
std::optional<Fate> FateWithoutEntry(const Packet& packet, const ReferenceModel& model) {
  const TriedConnection next{packet, model.Predict(packet), {}};
  switch (next.prediction.verdict) {
    case Verdict::kDropped:
      return Fate::kHangs;
    case Verdict::kRejected:
      return Fate::kReset;
    case Verdict::kDelivered:
      if (!InVain(next)) return Fate::kReset;
      break;
    case Verdict::kUntouched:
      break;
  }
  return std::nullopt;
}

void OpenConnections::Open(const std::vector<Source>& sources, const ReferenceModel& model,
                           Dice& dice) {
  std::vector<Packet> destinations = Destinations();
  dice.Shuffle(destinations);
  for (const Packet& to : destinations) {
    const Source& source = dice.OneOf(sources);
    if (connections_.size() == kConnections) break;
    if (IsLoopback(source) || to.protocol != Protocol::kTcp) continue;
    TriedConnection tried{PacketFrom(source, to), {}, {}};
    tried.prediction = model.Predict(tried.packet);
    if (tried.prediction.verdict != Verdict::kDelivered || tried.prediction.affinity ||
        InVain(tried)) {
      continue;
    }
    auto flow = TcpFlow::Open(source.host->netns(), {.destination = tried.packet.destination,
                                                     .port = tried.packet.port,
                                                     .source = tried.packet.source});
    if (!flow.ok()) continue;  // The probes have compared new connections.
    tried.answer = flow->answer();
    const std::optional<Choice> choice = TakenChoice(tried);
    if (!choice) continue;
    ModelEndpoint endpoint;
    endpoint.ip = *TextAddress::Parse(choice->ip);
    endpoint.port = choice->port;
    connections_.push_back({tried.packet, ServiceOf(tried.prediction), endpoint.ToString(),
                            tried.prediction.range, *std::move(flow)});
  }
}

void OpenConnections::Follow(const Objects& objects, const ReferenceModel& model) {
  for (Connection& connection : connections_) {
    const v1::Service* service = FindService(objects, connection.service);
    const Prediction prediction = model.Predict(connection.packet);
    // The agent may not have compared the destination with those of other Services since they
    // changed, so the result for a hidden destination depends on the order of changes.
    if (service == nullptr || ServiceOf(prediction) != connection.service ||
        prediction.range != connection.range || model.HidesAnother(connection.packet)) {
      connection.predictable = false;
      continue;
    }
    connection.endpoint_gone =
        !connection.range &&
        !TcpEndpointsInSlices(objects, *service, IsV6(connection.packet.destination))
             .contains(connection.endpoint);
    connection.resets &= model.ResetsStaleTcp(*service);
  }
}

void OpenConnections::CheckAndClose(const ReferenceModel& model, ProbeReport& report) {
  // The first write that fails shows that the agent has deleted the stale connections, so the
  // connections that continue are last.
  std::stable_partition(connections_.begin(), connections_.end(), [](const Connection& connection) {
    return connection.endpoint_gone && connection.resets;
  });
  for (Connection& connection : connections_) {
    if (!connection.predictable) continue;
    const bool stale = connection.endpoint_gone && connection.resets;
    const std::optional<Fate> fate =
        stale ? FateWithoutEntry(connection.packet, model) : std::optional(Fate::kContinues);
    if (!fate) continue;
    const absl::Status status = stale ? AwaitFailure(connection.flow, *fate)
                                      : connection.flow.Exchange(1, OnThisMachine(kPatience));
    const bool expected = *fate == Fate::kContinues ? status.ok()
                          : *fate == Fate::kReset   ? absl::IsUnavailable(status)
                                                    : absl::IsDeadlineExceeded(status);
    ++report.count[Text(*fate)];
    if (expected) continue;
    std::ostringstream text;
    text << connection.packet << " to endpoint " << connection.endpoint
         << "\n    expected: " << Text(*fate) << "\n    saw: " << status;
    report.mismatches.push_back(text.str());
  }
  connections_.clear();
}

// Random settings of the agent, derived from a seed. The number of different settings is small, so
// that many scenarios share one agent.
struct ScenarioSettings {
  ProxySettings proxy;
  // Pod ranges of the Node. The ranges are constant, because an agent may exit when the pod ranges
  // of its Node change.
  std::vector<std::string> pod_cidrs;

  std::vector<std::string> Flags() const;  // Returns the command-line flags of svcmapd.
  std::string ToString() const;            // Returns text that identifies these settings.
};

struct DetectorVariant {
  Detector detector;
  std::string cluster_cidr;
  std::string interface;
  std::vector<std::string> pod_cidrs = {kPodCidrV4, kPodCidrV6};
};

// Packets from local pods arrive on veth0 and veth1, packets from clients on other veths, and
// packets from the other node on "remote".
DetectorVariant RandomDetector(Dice& dice) {
  const std::string both = absl::StrCat(kClusterCidrV4, ",", kClusterCidrV6);
  const std::vector<DetectorVariant> variants = {
      {Detector::kClusterCidr, both, ""},
      {Detector::kClusterCidr, both, ""},
      {Detector::kClusterCidr, both, ""},
      {Detector::kClusterCidr, kClusterCidrV4, ""},
      {Detector::kClusterCidr, "", ""},
      {Detector::kNodeCidr, "", ""},
      {Detector::kNodeCidr, "", "", {kPodCidrV6}},
      {Detector::kBridgeInterface, "", "veth1"},
      {Detector::kInterfaceNamePrefix, "", "veth0"},
      {Detector::kInterfaceNamePrefix, "", "veth"},
  };
  return dice.OneOf(variants);
}

std::vector<std::string> ScenarioSettings::Flags() const {
  std::vector<std::string> flags;
  switch (proxy.detector) {
    case Detector::kClusterCidr:
      flags = {"--cluster-cidr", proxy.cluster_cidr};
      break;
    case Detector::kNodeCidr:
      flags = {"--detect-local-mode=NodeCIDR"};
      break;
    case Detector::kBridgeInterface:
      flags = {"--detect-local-mode=BridgeInterface",
               "--pod-bridge-interface=" + proxy.pod_interface};
      break;
    case Detector::kInterfaceNamePrefix:
      flags = {"--detect-local-mode=InterfaceNamePrefix",
               "--pod-interface-name-prefix=" + proxy.pod_interface};
      break;
  }
  if (proxy.masquerade_all) flags.emplace_back("--masquerade-all");
  if (proxy.answer_ping) flags.emplace_back("--answer-ping");
  if (proxy.reset_stale_tcp) flags.emplace_back("--reset-stale-tcp");
  if (proxy.port_ranges) flags.emplace_back("--port-ranges");
  flags.push_back("--nodeport-addresses=" + proxy.nodeport_addresses);
  return flags;
}

std::string ScenarioSettings::ToString() const {
  return absl::StrCat(absl::StrJoin(Flags(), " "), ", podCIDRs ", absl::StrJoin(pod_cidrs, ","));
}

ScenarioSettings RandomSettings(Dice& dice) {
  const DetectorVariant detector = RandomDetector(dice);
  ScenarioSettings settings;
  settings.proxy.detector = detector.detector;
  settings.proxy.cluster_cidr = detector.cluster_cidr;
  settings.proxy.pod_interface = detector.interface;
  settings.proxy.masquerade_all = dice.Chance(20);
  const char* const addresses[] = {"primary",
                                   "primary",
                                   "primary",
                                   "198.18.7.0/24,fd00:77::/64",
                                   "192.168.77.0/24,198.18.7.10/32,fd00:78::10/128",
                                   "203.0.113.0/24,::/0",
                                   "0.0.0.0/0",
                                   "primary,localhost",
                                   "localhost,198.18.7.0/24",
                                   "fd00:78::/64,primary",
                                   "all,127.0.0.0/8"};
  settings.proxy.nodeport_addresses = dice.OneOf(addresses);
  settings.pod_cidrs = detector.pod_cidrs;
  settings.proxy.answer_ping = dice.Chance(25);
  settings.proxy.reset_stale_tcp = dice.Chance(25);
  settings.proxy.port_ranges = dice.Chance(40);
  return settings;
}

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
