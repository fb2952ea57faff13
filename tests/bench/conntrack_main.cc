// svcmap-bench-conntrack: measures the cost of deleting stale UDP flows from a large connection
// tracking table. The benchmark runs in a separate network namespace. Raises
// net.netfilter.nf_conntrack_max during the run if necessary.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nft/conntrack/flow_message.h"
#include "nft/conntrack/netlink_flow_table.h"
#include "nft/netlink/dump.h"
#include "proxy/conntrack/cleaner.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/program.h"
#include "tests/support/netns.h"
#include "tests/support/tracked_flows.h"

namespace svcmap::bench {
namespace {

using Clock = std::chrono::steady_clock;
using testing::TrackedFlow;

constexpr uint32_t kServices = 1000;
// Number of endpoints with flows per Service. Each Service also has one spare endpoint without
// flows.
constexpr uint32_t kEndpoints = 10;
constexpr char kMaxPath[] = "/proc/sys/net/netfilter/nf_conntrack_max";
constexpr std::chrono::minutes kDeadline{5};

IpAddress Ip(uint8_t net, uint32_t host) {
  const uint8_t bytes[4] = {10, net, static_cast<uint8_t>(host >> 8), static_cast<uint8_t>(host)};
  return *IpAddress::FromBytes(bytes);
}

// Raises the machine's net.netfilter.nf_conntrack_max, which also limits other network namespaces.
// The destructor restores the previous limit.
class RaisedMax {
 public:
  explicit RaisedMax(uint64_t wanted) {
    std::ifstream(kMaxPath) >> before_;
    if (before_ < wanted) std::ofstream(kMaxPath) << wanted;
    std::ifstream(kMaxPath) >> now_;
  }
  ~RaisedMax() {
    if (now_ != before_) std::ofstream(kMaxPath) << before_;
  }
  uint64_t now() const { return now_; }

 private:
  uint64_t before_ = 0, now_ = 0;
};

// Returns flow `number`. Flows are distributed evenly over Services and endpoints.
TrackedFlow FlowOf(uint32_t number) {
  const uint32_t service = number % kServices;
  const uint32_t endpoint = number / kServices % kEndpoints;
  const uint16_t port = static_cast<uint16_t>(1024 + number % 60000);
  return testing::AFlow({Ip(9, number / 60000), port}, {Ip(96, service), 53},
                        {Ip(static_cast<uint8_t>(1 + endpoint), service), 5353});
}

absl::Status AddFlows(uint32_t count, uint32_t udp_every) {
  std::vector<TrackedFlow> some;
  for (uint32_t number = 0; number < count; ++number) {
    some.push_back(FlowOf(number));
    if (number % udp_every != 0) some.back().protocol = testing::FlowProtocol::kTcp;
    if (some.size() < 4096 && number + 1 < count) continue;
    if (absl::Status added = AddTrackedFlows(some); !added.ok()) return added;
    some.clear();
  }
  return absl::OkStatus();
}

// Returns the Service without its first `gone` endpoints, but with the spare endpoint if `spare` is
// true.
std::pair<std::string, proxy::UdpPorts> ServiceOf(uint32_t service, uint32_t gone, bool spare) {
  proxy::UdpPort port{.destinations = {nft::FlowEnd{Ip(96, service), 53}}};
  for (uint32_t endpoint = gone; endpoint < kEndpoints; ++endpoint) {
    port.endpoints.push_back({Ip(static_cast<uint8_t>(1 + endpoint), service), 5353});
  }
  if (spare) port.endpoints.push_back({Ip(200, service), 5353});
  return {"bench/" + std::to_string(service), {{{Family::kIpv4, "dns"}, std::move(port)}}};
}

class Bench {
 public:
  Bench()
      : cleaner_(table_, {.rest_factor = 0, .on_round = [this](const proxy::Cleanup& cleanup) {
                            const std::lock_guard lock(mutex_);
                            last_ = cleanup;
                            over_.notify_one();
                          }}) {
    cleaner_.Start();
    cleaner_.StateIsComplete();
  }

  // Measures an update that removes the first `gone` endpoints of the Services [first, last). The
  // update keeps the spare endpoints if `spare` is true.
  void Measure(const char* what, uint32_t first, uint32_t last, uint32_t gone, bool spare) {
    std::vector<std::pair<std::string, proxy::UdpPorts>> services;
    for (uint32_t i = first; i < last; ++i) services.push_back(ServiceOf(i, gone, spare));
    std::ofstream("/proc/self/clear_refs") << 5;  // Reset the peak memory value.
    const int64_t before = MemoryOf(::getpid()).rss_kib;
    std::unique_lock lock(mutex_);
    last_.reset();
    cleaner_.Update(std::move(services));
    if (!over_.wait_for(lock, kDeadline, [this] { return last_.has_value(); })) {
      std::printf("%-44s not done in time\n", what);
      return;
    }
    std::printf("%-44s %8zu %9llu %8llu %9.1f %9ld %+8ld%s\n", what, last_->services,
                static_cast<unsigned long long>(last_->entries),
                static_cast<unsigned long long>(last_->deleted[0]), Milliseconds(last_->duration),
                static_cast<long>(before),
                static_cast<long>(MemoryOf(::getpid()).peak_kib - before),
                last_->error.ok() ? "" : (" " + std::string(last_->error.message())).c_str());
  }

 private:
  nft::NetlinkFlowTable table_;
  std::mutex mutex_;
  std::condition_variable over_;
  std::optional<proxy::Cleanup> last_;
  proxy::Cleaner cleaner_;
};

// Measures how long the kernel searches for flows that do not exist. Packets on the same CPU are
// delayed during the search.
void MeasureFruitlessFilter() {
  absl::StatusOr<nft::Socket> socket = nft::Socket::Open(NETLINK_NETFILTER);
  if (!socket.ok()) return;
  alignas(nlmsghdr) uint8_t buffer[nft::kMaxFlowMessage];
  const nlmsghdr* request =
      nft::WriteFlowDump(buffer, {nft::TransportProtocol::kUdp, Family::kIpv6});
  const auto start = Clock::now();
  const absl::Status status = DumpOnce(*socket, request, [](const nlmsghdr*) { return true; });
  std::printf("the kernel's filter, where nothing matches: one call of %.1f ms%s\n",
              Milliseconds(Clock::now() - start), status.ok() ? "" : " (failed)");
}

void RunTable(uint32_t flows, uint32_t udp_every) {
  Need(testing::NetNs::Create()).Run([&] {
    const auto start = Clock::now();
    Need(AddFlows(flows, udp_every));
    std::printf("\n%llu flows, %u of them UDP; made in %.0f ms\n",
                static_cast<unsigned long long>(testing::TrackedFlowCount()),
                (flows + udp_every - 1) / udp_every, Milliseconds(Clock::now() - start));
    MeasureFruitlessFilter();
    std::printf("%-44s %8s %9s %8s %9s %9s %8s\n", "round", "services", "entries", "deleted", "ms",
                "RSS KiB", "peak");
    Bench bench;
    bench.Measure("the first, of everything, nothing stale", 0, kServices, 0, true);
    bench.Measure("of everything, nothing stale", 0, kServices, 0, false);
    bench.Measure("one endpoint of 20 Services goes", 0, 20, 1, false);
    bench.Measure("a Service loses its last endpoint", 20, 21, kEndpoints, false);
    bench.Measure("all Services lose all endpoints", 0, kServices, kEndpoints, false);
  });
}

int Main(int argc, char** argv) {
  uint64_t flows = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 500000;
  flows = std::clamp<uint64_t>(flows, kServices, 2000000);
  const RaisedMax max(flows + 1000);
  if (max.now() < flows) {
    std::printf("net.netfilter.nf_conntrack_max is %llu and cannot be raised: so many flows\n",
                static_cast<unsigned long long>(max.now()));
    flows = max.now();
  }
  for (const uint32_t udp_every : {1, 3, 100}) RunTable(static_cast<uint32_t>(flows), udp_every);
  return 0;
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) { return svcmap::bench::Main(argc, argv); }
