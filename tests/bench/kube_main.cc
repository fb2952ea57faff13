// svcmap-bench-kube: measures the time from the start of svcmap-kube until svcmapd has committed
// all Services and endpoints of a cluster. Uses the release binaries and the tests' fake API server
// in a separate namespace.
#include <httplib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/bench/cluster/cluster.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/program.h"
#include "tests/bench/record/statistics.h"
#include "tests/support/agent.h"
#include "tests/support/api_server.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kPatience{2};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Round {
  double programmed = 0;  // Time until all objects are programmed, in seconds.
  double bridge_cpu = 0, agent_cpu = 0;
  int64_t bridge_peak_kib = 0, agent_peak_kib = 0;
};

class Bench {
 public:
  explicit Bench(const ClusterShape& shape)
      : netns_(Need(testing::NetNs::Create())), folder_(Need(testing::TemporaryFolder::Make())) {
    server_ = Need(testing::FakeApiServer::Start(&netns_));
    const Cluster cluster(shape);
    endpoints_ = cluster.endpoint_count();
    testing::Objects objects = {testing::ANode(testing::kAgentNode),
                                testing::AServiceCidr("kubernetes", {"10.96.0.0/12"})};
    for (const ServicePort& port : cluster.ports()) {
      *objects.emplace_back().mutable_service() = ServiceMessage(port);
      for (v1::EndpointSlice& slice : SliceMessages(port)) {
        *objects.emplace_back().mutable_endpoint_slice() = std::move(slice);
      }
    }
    server_->Put(objects);
    Need(server_->WriteKubeconfig(kubeconfig()));
  }

  // Measures how long the API server takes to answer a list request.
  void PrintList(const std::string& path) {
    netns_.Run([&] {
      httplib::SSLClient client("127.0.0.1", server_->port());
      client.enable_server_certificate_verification(false);
      // Send two requests and measure only the second request, because the first request includes
      // one-time work.
      for (int i = 0; i < 2; ++i) {
        const auto start = Clock::now();
        const httplib::Result result =
            client.Get(path, {{"Accept", "application/vnd.kubernetes.protobuf"},
                              {"Authorization", "Bearer anybody"}});
        if (!result || result->status != 200) Fail("no list of " + path);
        if (i == 0) continue;
        std::printf("%s: %.1f MB in %.3f s\n", path.c_str(),
                    static_cast<double>(result->body.size()) / 1e6, SecondsSince(start));
      }
    });
  }

  Round Run() {
    Need(testing::Agent::CleanUp(netns_));
    const std::unique_ptr<testing::Agent> agent = Need(testing::Agent::Start(netns_));
    const double agent_cpu = CpuSecondsOf(agent->pid());
    const auto start = Clock::now();
    const auto bridge = Need(testing::ChildProcess::Start(
        {.argv = {SVCMAP_BIN_DIR "/svcmap-kube", "--kubeconfig", kubeconfig(), "--agent",
                  agent->socket(), "--node-name", testing::kAgentNode},
         .netns = &netns_}));
    for (;;) {
      const v1::GetStatusResponse status = Need(agent->GetStatus());
      if (status.state() == v1::SERVING && status.pending_changes() == 0 &&
          status.endpoints() == endpoints_) {
        break;
      }
      if (Clock::now() - start > kPatience) Fail("svcmap-kube says:\n" + bridge->err());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    Round round{.programmed = SecondsSince(start),
                .bridge_cpu = CpuSecondsOf(bridge->pid()),
                .agent_cpu = CpuSecondsOf(agent->pid()) - agent_cpu,
                .bridge_peak_kib = MemoryOf(bridge->pid()).peak_kib,
                .agent_peak_kib = MemoryOf(agent->pid()).peak_kib};
    return round;
  }

 private:
  std::string kubeconfig() const { return folder_.path() + "/kubeconfig"; }

  testing::NetNs netns_;
  testing::TemporaryFolder folder_;
  std::unique_ptr<testing::FakeApiServer> server_;
  uint64_t endpoints_ = 0;
};

int Main(int argc, char** argv) {
  ClusterShape shape{.services = 10000, .endpoints = 10};
  int rounds = 5;
  CLI::App app("svcmap-bench-kube measures the way from an API server to the kernel.");
  app.add_option("--services", shape.services)->capture_default_str();
  app.add_option("--endpoints", shape.endpoints)->capture_default_str();
  app.add_option("--rounds", rounds)->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  Bench bench(shape);
  std::printf("%d Services with %d endpoints each. The API server alone:\n", shape.services,
              shape.endpoints);
  bench.PrintList("/api/v1/services");
  bench.PrintList("/apis/discovery.k8s.io/v1/endpointslices");
  std::vector<double> programmed, bridge_cpu, agent_cpu, memory, agent_memory;
  for (int i = 0; i < rounds; ++i) {
    const Round round = bench.Run();
    programmed.push_back(round.programmed);
    bridge_cpu.push_back(round.bridge_cpu);
    agent_cpu.push_back(round.agent_cpu);
    memory.push_back(static_cast<double>(round.bridge_peak_kib) / 1024);
    agent_memory.push_back(static_cast<double>(round.agent_peak_kib) / 1024);
  }
  std::printf(
      "\nFrom the start of svcmap-kube to the commit, %d rounds:\n"
      "| median | fastest | slowest | CPU of svcmap-kube | of svcmapd | memory of svcmap-kube | of "
      "svcmapd |\n|---|---|---|---|---|---|---|\n"
      "| %.2f s | %.2f s | %.2f s | %.2f s | %.2f s | %.0f MiB | %.0f MiB |\n",
      rounds, Median(programmed), Percentile(programmed, 0), Percentile(programmed, 1),
      Median(bridge_cpu), Median(agent_cpu), Median(memory), Median(agent_memory));
  return 0;
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) { return svcmap::bench::Main(argc, argv); }
