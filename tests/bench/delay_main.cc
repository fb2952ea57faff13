// svcmap-bench-delay: measures how long a change of one Service takes while svcmapd processes other
// changes: growth, one Service with 12,000 or 65,000 ports, one Service with 65,535 endpoints, and
// repairs.
// A second client changes one endpoint, waits for the Ack, and repeats. Requires root.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "svcmap/v1/control.grpc.pb.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/program.h"
#include "tests/bench/record/statistics.h"
#include "tests/support/agent.h"

namespace svcmap::bench {
namespace {

using Clock = std::chrono::steady_clock;
using testing::Agent;
using testing::AService;
using testing::ASlice;
using testing::Objects;

constexpr int kPorts = 65000;
// About as many ports as a Kubernetes API server can store: a port takes 30 bytes, its entry in
// managedFields takes 100 bytes, and etcd accepts 1.5 MiB.
constexpr int kStorablePorts = 12000;
constexpr int kPortsPerSlice = 100;
constexpr int kEndpoints = 65535;
constexpr int kEndpointsPerSlice = 1000;
constexpr int kNodes = 100;  // The endpoints are distributed over these nodes.
constexpr size_t kObjectsPerBatch = 1000;
constexpr std::chrono::milliseconds kBetweenChanges{2};
constexpr std::chrono::milliseconds kQuiet{300};  // After each phase.

// Changes an endpoint of the probe Service continuously.
class Prober {
 public:
  explicit Prober(const std::string& socket)
      : stub_(
            v1::Control::NewStub(grpc::CreateChannel(socket, grpc::InsecureChannelCredentials()))) {
  }

  static v1::Object Service() {
    return AService("probe/probe").ClusterIp("10.111.255.1").Port("p", 80);
  }
  static v1::Object Slice(int version) {
    return ASlice("probe/probe")
        .Endpoint(absl::StrCat("10.244.9.", 1 + version % 2), testing::kAgentNode)
        .Port("p", 8080);
  }

  void Start() {
    stop_ = false;
    milliseconds_.clear();
    thread_ = std::thread([this] { Run(); });
  }
  std::vector<double> Stop() {
    stop_ = true;
    thread_.join();
    return milliseconds_;
  }

 private:
  void Run() {
    while (!stop_) {
      v1::ApplyRequest request;
      request.set_protocol_version(2);
      *request.add_objects() = Slice(++version_);
      v1::Ack ack;
      grpc::ClientContext context;
      const Clock::time_point start = Clock::now();
      const grpc::Status status = stub_->Apply(&context, request, &ack);
      if (!status.ok() || ack.outcome() != v1::COMMITTED) {
        Fail(absl::StrCat("probe: ", status.error_message(), ack.ShortDebugString()));
      }
      milliseconds_.push_back(Milliseconds(Clock::now() - start));
      std::this_thread::sleep_for(kBetweenChanges);
    }
  }

  std::unique_ptr<v1::Control::Stub> stub_;
  int version_ = 0;
  std::atomic<bool> stop_{false};
  std::vector<double> milliseconds_;
  std::thread thread_;
};

// Sends all changes on a stream, and waits for the last Ack.
void Push(Agent& agent, const std::vector<v1::Change>& changes, size_t per_batch) {
  const auto stream = Need(agent.Push("bulk"));
  uint64_t last = 0;
  for (size_t first = 0; first < changes.size(); first += per_batch) {
    const auto begin = changes.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end =
        changes.begin() + static_cast<std::ptrdiff_t>(std::min(first + per_batch, changes.size()));
    last = Need(stream->Send({begin, end}));
  }
  for (uint64_t number = 0; number < last;) {
    const v1::Ack ack = Need(stream->ReadAck());
    if (ack.results_size() > 0) Fail(ack.results(0).message());
    number = ack.number();
  }
}

std::vector<v1::Change> Upserts(const Objects& objects) {
  std::vector<v1::Change> changes;
  for (const v1::Object& object : objects) changes.push_back(testing::Upsert(object));
  return changes;
}

// Returns the removals of the objects in `upserts`.
std::vector<v1::Change> Removals(const std::vector<v1::Change>& upserts) {
  std::vector<v1::Change> changes;
  for (const v1::Change& upsert : upserts) {
    const bool service = upsert.has_service();
    const v1::ObjectMeta& meta =
        service ? upsert.service().metadata() : upsert.endpoint_slice().metadata();
    const std::string key = absl::StrCat(meta.namespace_(), "/", meta.name());
    changes.push_back(
        testing::Removal(service ? testing::ServiceRef(key) : testing::SliceRef(key)));
  }
  return changes;
}

Objects ServiceWithPorts(int ports, int version) {
  AService service("big/ports");
  service.ClusterIp("10.111.255.2");
  Objects objects;
  for (int i = 0; i < ports; ++i) service.Port(absl::StrCat("p", i), 1 + i);
  objects.push_back(service);
  for (int first = 0; first < ports; first += kPortsPerSlice) {
    ASlice slice("big/ports");
    slice.Named(absl::StrCat("ports-", first))
        .Endpoint(absl::StrCat("10.244.8.", 1 + version), testing::kAgentNode);
    for (int i = first; i < first + kPortsPerSlice; ++i) slice.Port(absl::StrCat("p", i), 1 + i);
    objects.push_back(slice);
  }
  return objects;
}

Objects ServiceWithEndpoints(int version) {
  Objects objects = {AService("big/endpoints").ClusterIp("10.111.255.3").Port("p", 80)};
  for (int first = 0; first < kEndpoints; first += kEndpointsPerSlice) {
    ASlice slice("big/endpoints");
    slice.Named(absl::StrCat("endpoints-", first)).Port("p", 8080);
    for (int i = first; i < std::min(first + kEndpointsPerSlice, kEndpoints); ++i) {
      // Each version has 2 * 250 * 250 addresses.
      const int block = i / (250 * 250);
      slice.Endpoint(
          absl::StrCat("10.", 128 + 2 * version + block, ".", i / 250 % 250, ".", i % 250),
          i % kNodes == 0 ? std::string(testing::kAgentNode) : absl::StrCat("other-", i % kNodes));
    }
    objects.push_back(slice);
  }
  return objects;
}

class Bench {
 public:
  Bench(const ClusterShape& shape, const std::string& svcmapd)
      : shape_(shape), agent_(Need(Agent::Launch(netns_, {}, svcmapd))) {
    Need(agent_->WaitUntilItAnswers());
    Need(agent_->Replace({testing::ANode(testing::kAgentNode).InternalIp("192.0.2.1"),
                          Prober::Service(), Prober::Slice(0)}));
    prober_.emplace(agent_->socket());
  }

  void Run() {
    const std::vector<v1::Change> cluster = AllMessages(Cluster(shape_));
    const std::vector<v1::Change> more = AllMessages(Cluster(shape_, shape_.services));
    Phase("idle", [] { std::this_thread::sleep_for(std::chrono::seconds(2)); });
    Phase("load", [&] { Push(*agent_, cluster, kObjectsPerBatch); });
    Phase("growth", [&] { Push(*agent_, more, kObjectsPerBatch); });
    Phase("deletion", [&] { Push(*agent_, Removals(more), kObjectsPerBatch); });
    Large("12,000 ports", ServiceWithPorts(kStorablePorts, 0), ServiceWithPorts(kStorablePorts, 1));
    Large("65,000 ports", ServiceWithPorts(kPorts, 0), ServiceWithPorts(kPorts, 1));
    Large("65,535 endpoints", ServiceWithEndpoints(0), ServiceWithEndpoints(1));
    Damage("flushed service-ips", "flush map ip svcmap service-ips\n");
    Damage("flushed endpoints", "flush map ip svcmap endpoints\n");
    Damage("deleted tables", "flush ruleset\n");
  }

 private:
  void Large(const std::string& name, const Objects& first, const Objects& second) {
    const size_t all = first.size();
    Phase(name + " added", [&] { Push(*agent_, Upserts(first), all); });
    Phase(name + " replaced", [&] { Push(*agent_, Upserts(second), all); });
    Phase(name + " deleted", [&] { Push(*agent_, Removals(Upserts(second)), all); });
  }

  void Damage(const std::string& name, const std::string& script) {
    Phase(name, [&] {
      const uint64_t before = Need(agent_->GetStatus()).repairs();
      Need(testing::RunNft(netns_, script));
      for (;;) {
        const v1::GetStatusResponse now = Need(agent_->GetStatus());
        if (now.repairs() > before && now.verified()) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }

  void Phase(const std::string& name, const std::function<void()>& action) {
    const v1::GetStatusResponse before = Need(agent_->GetStatus());
    prober_->Start();
    const double from = Now();
    action();
    const double to = Now();
    std::this_thread::sleep_for(kQuiet);
    const std::vector<double> ms = prober_->Stop();
    std::printf(
        "%-24s %9.1f ms, %6zu probes: p50 %8.2f ms, p99 %8.2f ms, longest %8.2f ms  [%.6f %.6f]\n",
        name.c_str(), (to - from) * 1e3, ms.size(), Median(ms), Percentile(ms, 0.99),
        Percentile(ms, 1), from, Now());
    PrintStages(before, Need(agent_->GetStatus()));
    std::fflush(stdout);
  }

  // Prints the time that svcmapd spent in each stage, if it is at least 1 ms.
  static void PrintStages(const v1::GetStatusResponse& before, const v1::GetStatusResponse& after) {
    for (int i = 0; i < after.stages_size(); ++i) {
      const auto nanoseconds = [](const google::protobuf::Duration& time) {
        return time.seconds() * 1'000'000'000 + time.nanos();
      };
      const auto took = nanoseconds(after.stages(i).sum()) - nanoseconds(before.stages(i).sum());
      if (took < 1'000'000) continue;
      std::printf("%28s %9.1f ms\n", after.stages(i).name().c_str(),
                  static_cast<double>(took) / 1e6);
    }
  }

  // Seconds since the epoch, for comparison with traces of system calls.
  static double Now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  const ClusterShape shape_;
  const testing::NetNs netns_ = Need(testing::NetNs::Create());
  const std::unique_ptr<Agent> agent_;
  std::optional<Prober> prober_;
};

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) {
  CLI::App app("Measures how long a change takes while svcmapd processes other changes.");
  std::string shape = "10000x10";
  std::string svcmapd;
  app.add_option("--shape", shape, "Cluster to load, SERVICESxENDPOINTS")->capture_default_str();
  app.add_option("--svcmapd", svcmapd, "Path of the svcmapd binary (default: of this build)");
  CLI11_PARSE(app, argc, argv);
  const auto parsed = svcmap::bench::ParseShape(shape);
  if (!parsed.ok()) return 1;
  svcmap::bench::Bench(*parsed, svcmapd).Run();
  return 0;
}
