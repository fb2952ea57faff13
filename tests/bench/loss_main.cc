// svcmap-bench-loss: counts the packets that svcmapd and the rules of kube-proxy lose while
// Services and endpoints change, with the traffic and the counters of tests/loss. Requires root.
//
// Each update changes several counted Services. Each compared implementation makes the same changes
// in a separate topology.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/opponents/opponent.h"
#include "tests/loss/counted_traffic.h"

namespace svcmap::bench {
namespace {

using testing::CountedService;
using testing::CountedTraffic;
using testing::DatagramCounts;
using testing::LossCounts;

constexpr int kServices = 6;
constexpr int kEndpointsApart = 16;

// A kind of change.
struct Kind {
  std::string name;
  // Edits the state of a counted Service after the change with this number. Before the first
  // change, the Services have the state with the number 0.
  std::function<void(CountedService&, int)> edit;
  // True if Services with odd numbers are sometimes deleted. Only even Services are counted then.
  bool only_even = false;
  // True if rejected packets are not lost, because the Services sometimes have no endpoints.
  bool may_reject = false;
};

// Returns endpoints of the Service. `numbers` are below kEndpointsApart.
std::set<int> Endpoints(const CountedService& service, std::initializer_list<int> numbers) {
  std::set<int> endpoints;
  for (const int number : numbers) endpoints.insert(service.number * kEndpointsApart + number);
  return endpoints;
}

void Replace(CountedService& service, int change) {
  service.endpoints = Endpoints(service, {change % 2, 2, 4});
}

void Scale(CountedService& service, int change) {
  service.endpoints = change % 2 == 0 ? Endpoints(service, {0, 2, 4}) : Endpoints(service, {0, 2});
}

void ComeAndGo(CountedService& service, int change) {
  service.endpoints = change % 2 == 0 ? Endpoints(service, {0, 2, 4}) : Endpoints(service, {});
}

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kKinds = {
      {"the only endpoint replaced",
       [](CountedService& service, int change) {
         service.endpoints = Endpoints(service, {change % 2});
       }},
      {"one of three endpoints replaced", Replace},
      {"three endpoints to two and back", Scale},
      {.name = "cluster IP: three endpoints to none and back",
       .edit = ComeAndGo,
       .may_reject = true},
      {.name = "load balancer IP: three endpoints to none and back",
       .edit =
           [](CountedService& service, int change) {
             service.load_balancer = true;
             ComeAndGo(service, change);
           },
       .may_reject = true},
      {.name = "other Services deleted and added",
       .edit =
           [](CountedService& service, int change) {
             service.endpoints = Endpoints(service, {0, 2, 4});
             service.exists = service.number % 2 == 0 || change % 2 == 0;
           },
       .only_even = true},
      {"session affinity: one of three endpoints replaced",
       [](CountedService& service, int change) {
         service.affinity_seconds = testing::kCountedAffinitySeconds;
         Replace(service, change);
       }},
      {"session affinity: three endpoints to two and back",
       [](CountedService& service, int change) {
         service.affinity_seconds = testing::kCountedAffinitySeconds;
         Scale(service, change);
       }},
  };
  return kKinds;
}

std::vector<CountedService> ServicesAfter(const Kind& kind, int change) {
  std::vector<CountedService> services;
  for (int number = 0; number < kServices; ++number) {
    CountedService& service = services.emplace_back();
    service.number = number;
    service.key = absl::StrCat("counted/s", number);
    kind.edit(service, change);
  }
  return services;
}

ServicePort PortOf(const CountedService& service) {
  ServicePort port{.name_space = "counted",
                   .service = absl::StrCat("s", service.number),
                   .port_name = "dns",
                   .protocol = proxy::Protocol::kUdp,
                   .cluster_ip = *IpAddress::Parse(service.cluster_ip()),
                   .port = service.port(),
                   .affinity_seconds = service.affinity_seconds};
  if (service.load_balancer) {
    port.load_balancer_ips = {*IpAddress::Parse(service.address())};
    port.external_local = true;  // The clients are not masqueraded.
    port.health_check_node_port = static_cast<uint16_t>(30000 + service.number);
  }
  for (const int endpoint : service.endpoints) {
    port.endpoints.push_back({.address = {*IpAddress::Parse(testing::CountedEndpoint(endpoint)),
                                          service.target_port()}});
  }
  return port;
}

Cluster ClusterOf(const std::vector<CountedService>& services) {
  std::vector<ServicePort> ports;
  for (const CountedService& service : services) {
    if (service.exists) ports.push_back(PortOf(service));
  }
  return Cluster(std::move(ports));
}

ClusterChange ChangeOf(const CountedService& before, const CountedService& after) {
  ClusterChange change;
  if (before.exists) change.before = PortOf(before);
  if (after.exists) change.after = PortOf(after);
  change.messages = after.exists ? UpsertMessages(*change.after) : RemovalMessages(*change.before);
  return change;
}

absl::StatusOr<LossCounts> Measure(const std::string& name, const Kind& kind, int changes,
                                   const OpponentSettings& settings) {
  auto topology = testing::Topology::Create();
  if (!topology.ok()) return topology.status();
  const auto hosts = testing::AddCountedHosts(**topology);
  if (!hosts.ok()) return hosts.status();
  const testing::NetNs& node = (*topology)->node().netns();
  auto opponent = MakeOpponent(name, node, settings);
  if (!opponent.ok()) return opponent.status();
  std::vector<CountedService> services = ServicesAfter(kind, 0);
  const absl::StatusOr<Cost> load = (*opponent)->Load(ClusterOf(services));
  if (!load.ok()) return load.status();
  const auto traffic = CountedTraffic::Start(node, *hosts, services);
  if (!traffic.ok()) return traffic.status();
  for (int change = 1; change <= changes; ++change) {
    const std::vector<CountedService> after = ServicesAfter(kind, change);
    std::vector<ClusterChange> update;
    for (size_t i = 0; i < after.size(); ++i) {
      const bool changed =
          after[i].exists != services[i].exists || after[i].endpoints != services[i].endpoints;
      if (changed) update.push_back(ChangeOf(services[i], after[i]));
    }
    absl::Status status = (*traffic)->Change(after);
    if (status.ok()) status = (*opponent)->Change(ClusterOf(after), update).status();
    if (status.ok()) status = (*traffic)->LetFlow();
    if (!status.ok()) return status;
    services = after;
  }
  return (*traffic)->Stop();
}

// Returns the number of lost packets of Services that are never deleted.
int64_t Lost(const Kind& kind, const DatagramCounts& by_source_port) {
  int64_t lost = 0;
  for (int number = 0; number < kServices; ++number) {
    if (kind.only_even && number % 2 == 1) continue;
    const auto count =
        by_source_port.find(absl::StrCat(CountedService{.number = number}.source_port()));
    if (count != by_source_port.end()) lost += count->second;
  }
  return lost;
}

int Run(const std::vector<std::string>& opponents, int changes, const OpponentSettings& settings) {
  int failures = 0;
  std::printf(
      "| Change | Implementation | Changes | New flows | Flows/s | Untranslated | Dropped | "
      "Misdirected |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const Kind& kind : Kinds()) {
    for (const std::string& opponent : opponents) {
      const absl::StatusOr<LossCounts> counts = Measure(opponent, kind, changes, settings);
      if (!counts.ok()) {
        ++failures;
        std::fprintf(stderr, "svcmap-bench-loss: %s, %s: %s\n", opponent.c_str(), kind.name.c_str(),
                     counts.status().ToString().c_str());
        continue;
      }
      const int64_t untranslated =
          Lost(kind, kind.may_reject ? counts->escaped : counts->untranslated);
      std::printf("| %s | %s | %d | %lld | %.0f | %lld | %lld | %lld |\n", kind.name.c_str(),
                  opponent.c_str(), changes, static_cast<long long>(counts->flows),
                  counts->per_second, static_cast<long long>(untranslated),
                  static_cast<long long>(Lost(kind, counts->dropped)),
                  static_cast<long long>(testing::Sum(counts->misdirected)));
      std::fflush(stdout);
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) {
  using namespace svcmap::bench;  // NOLINT: main() only.
  std::vector<std::string> opponents = {"svcmap",          "nftables",        "nftables-single",
                                        "nftables-shared", "iptables-legacy", "iptables-nft"};
  int changes = 200;
  OpponentSettings settings;
  settings.svcmapd =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "svcmapd").string();
  CLI::App app("Counts the packets that Service proxies lose while Services change.",
               "svcmap-bench-loss");
  app.add_option("--opponents", opponents, "Compared implementations")
      ->delimiter(',')
      ->check(CLI::IsMember(OpponentNames()));
  app.add_option("--changes", changes, "Number of updates of each kind")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--svcmapd", settings.svcmapd,
                 "Path of the svcmapd binary (default: binary of this build)");
  CLI11_PARSE(app, argc, argv);
  return Run(opponents, changes, settings);
}
