// Random changes in a small cluster in which Services often claim the same addresses, ports and
// endpoints. The changes depend only on the seed.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy::test {

class RandomChanges {
 public:
  explicit RandomChanges(uint32_t seed) : random_(seed) {}

  // Returns a random number below `n`.
  unsigned Below(unsigned n) { return random_() % n; }
  bool Chance(unsigned percent) { return Below(100) < percent; }

  Change AnyChange() {
    switch (Below(20)) {
      case 0:
        return Removal(Kind::kNode, NodeName());
      case 1:
        return ANode(NodeName(), NodeAddresses(), Zone(), PodCidrs());
      case 2:
        return Removal(Kind::kServiceCidr, CidrName());
      case 3:
      case 4:
        return SomeServiceCidr();
      case 5:
      case 6:
        return NoService(ServiceKey());
      case 7:
        return NoSlice(SliceKey());
      default:
        return Chance(55) ? SomeService() : SomeSlice();
    }
  }

  // Returns all addresses that Services and nodes can have.
  static std::vector<IpAddress> Destinations() {
    std::vector<std::string> addresses;
    for (const char* prefix : {"10.96.0.", "fd00:96::", "192.0.2.", "2001:db8::"}) {
      for (unsigned n = 0; n < kAddresses; ++n) addresses.push_back(prefix + std::to_string(n));
    }
    return Ips(addresses);
  }

  std::vector<IpAddress> InterfaceAddresses() {
    std::vector<std::string> addresses = {"127.0.0.1", "::1"};
    for (int i = 0; i < 4; ++i) addresses.push_back(NodeAddress());
    return Ips(addresses);
  }

 private:
  static constexpr unsigned kAddresses = 6;  // Number of addresses with each prefix.

  static std::string Pick(const std::vector<std::string>& of, unsigned n) { return of[n]; }
  std::string Numbered(const char* prefix, unsigned n) { return prefix + std::to_string(Below(n)); }
  std::string ServiceKey() { return Numbered("ns/svc", 10); }
  std::string SliceKey() { return Numbered("ns/slice", 16); }
  std::string NodeName() { return Numbered("n", 2); }
  std::string CidrName() { return Numbered("cidr", 3); }
  std::string NodeAddress() { return Numbered(Chance(50) ? "192.0.2." : "2001:db8::", 4); }

  std::vector<std::string> NodeAddresses() {
    std::vector<std::string> addresses;
    for (unsigned i = Below(3); i > 0; --i) addresses.push_back(NodeAddress());
    return addresses;
  }

  std::string Zone() { return Numbered("z", 3); }
  std::vector<std::string> PodCidrs() {
    std::vector<std::string> cidrs;
    if (Chance(80)) cidrs.push_back("10." + std::to_string(Below(2)) + ".0.0/16");
    if (Chance(80)) cidrs.push_back("fd00:" + std::to_string(Below(2)) + "::/64");
    return cidrs;
  }

  Change SomeServiceCidr() {
    static const std::vector<std::string> kCidrs = {
        "10.96.0.0/14", "10.96.0.0/16",  "10.97.0.0/16",     "10.98.0.0/16",
        "10.99.0.0/16", "0.0.0.0/0",     "255.0.0.0/8",      "fd00:96::/110",
        "fd00:96::/64", "fd00:96::/112", "fd00:96::1:0/112", "ffff::/16"};
    std::vector<std::string> cidrs;
    for (unsigned i = 1 + Below(3); i > 0; --i) cidrs.push_back(Pick(kCidrs, Below(12)));
    return AServiceCidr(CidrName(), cidrs);
  }

  // Returns an address that several Services may use.
  std::string Wanted(const char* v4, const char* v6, Family family) {
    return Numbered(family == Family::kIpv4 ? v4 : v6, kAddresses);
  }

  // Runs `pick`, which usually makes the same random decisions as for the last version of the
  // object. So two successive versions of an object often differ in one part only.
  template <typename Fn>
  void Part(const std::string& key, const char* part, Fn pick) {
    uint32_t& seed = seeds_[{key, part}];
    if (seed == 0 || Chance(35)) seed = random_();
    std::mt19937 others = std::exchange(random_, std::mt19937(seed));
    pick();
    random_ = std::move(others);
  }

  // Returns a random Service. The Service contains no address or port twice, because API servers
  // and api/convert reject such a Service.
  Change SomeService() {
    const std::string key = ServiceKey();
    AService service(key);
    Part(key, "addresses", [&] {
      std::vector<Family> families = {Family::kIpv4, Family::kIpv6};
      if (Chance(50)) families.erase(families.begin() + Below(2));
      for (const Family family : families) {
        service.At(Wanted("10.96.0.", "fd00:96::", family));
        if (Chance(30)) service.External(Wanted("192.0.2.", "2001:db8::", family));
        if (Chance(50)) service.LoadBalancer(Wanted("10.96.0.", "fd00:96::", family));
      }
    });
    Part(key, "options", [&] {
      service.Created(Below(3));
      if (Chance(5)) service.NotProxied();
      if (Chance(15)) service.Pick(Chance(50) ? PickBy::kClient : PickBy::kClientAndPort);
      if (Chance(30)) service.ResetStaleTcp(Chance(50));
    });
    Part(key, "policies", [&] {
      if (Chance(30)) service.InternalLocal();
      if (Chance(40)) service.ExternalLocal();
    });
    Part(key, "affinity", [&] {
      if (Chance(40)) service.Affinity(Chance(50) ? 10800 : 10 * (1 + Below(3)));
    });
    Part(key, "sources", [&] {
      if (Chance(50)) AddSourceRanges(service);
    });
    Part(key, "ports", [&] { AddPorts(service); });
    return service;
  }

  void AddPorts(AService& service) {
    std::vector<std::string> seen;
    const auto once = [&](const std::string& what) {
      if (std::find(seen.begin(), seen.end(), what) != seen.end()) return false;
      seen.push_back(what);
      return true;
    };
    for (unsigned i = 0; i < 4; ++i) {
      const Protocol protocol = SomeProtocol(i);
      const auto number = static_cast<uint16_t>(Chance(20) ? 30000 + Below(3) : 80 + Below(3));
      const std::string name(ProtocolName(protocol));
      if (!once(name + std::to_string(number))) continue;
      service.Port(number, i == 0 ? "" : "p" + std::to_string(i), protocol);
      const auto node_port = static_cast<uint16_t>(30000 + Below(4));
      if (Chance(40) && once("node" + name + std::to_string(node_port))) {
        service.NodePort(node_port);
      } else if (Chance(30) && once("range" + name)) {
        service.EndPort(static_cast<uint16_t>(number + Below(600)));
      }
    }
  }

  // Adds overlapping, equal and adjacent ranges. Some ranges contain the node's address or the load
  // balancer IP.
  void AddSourceRanges(AService& service) {
    static const std::vector<std::string> kRanges = {
        "192.0.2.0/24", "192.0.2.2/31",    "10.0.0.0/8",     "10.0.0.0/9",
        "10.128.0.0/9", "198.51.100.0/25", "2001:db8::/64",  "2001:db8::2/127",
        "fd00::/8",     "fd00:1::/64",     "2001:db9::/112", "2001:db9::1/128"};
    for (unsigned i = 1 + Below(4); i > 0; --i) service.SourceRange(Pick(kRanges, Below(12)));
  }

  // Ports with the same index in Services and slices usually have the same protocol.
  Protocol SomeProtocol(unsigned index) {
    constexpr Protocol kProtocols[] = {Protocol::kTcp, Protocol::kTcp, Protocol::kUdp,
                                       Protocol::kSctp};
    return kProtocols[Chance(60) ? index : Below(4)];
  }

  Change SomeSlice() {
    const std::string key = SliceKey();
    std::string service;
    Family family = Family::kIpv4;
    Part(key, "service", [&] {
      if (Chance(95)) service = ServiceKey();
      if (Chance(40)) family = Family::kIpv6;
    });
    ASlice slice(key, service, family);
    Part(key, "ports", [&] {
      for (unsigned i = 0; i < 4; ++i) {
        if (!Chance(70)) continue;
        slice.Port(static_cast<uint16_t>(8080 + Below(2)), i == 0 ? "" : "p" + std::to_string(i),
                   SomeProtocol(i));
      }
    });
    // Sometimes use so many endpoints that a map of 1,024 elements has to grow.
    const unsigned count = Chance(2) ? 700 + Below(500) : Chance(10) ? Below(60) : Below(5);
    const char* prefix = family == Family::kIpv4 ? "10.0." : "fd00:1::";
    const bool hinted = Chance(30);
    for (unsigned i = 0; i < count; ++i) {
      const unsigned n = count < 100 ? Below(count * 2 + 4) : i;
      const std::string address = family == Family::kIpv4 ? prefix + std::to_string(n / 250) + "." +
                                                                std::to_string(1 + n % 250)
                                                          : prefix + std::to_string(1 + n);
      slice.Endpoint(address, SomeConditions(), Chance(20));
      if (Chance(10)) slice.Weight(static_cast<uint16_t>(Below(4)));
      if (hinted && Chance(95)) slice.Hinted(SomeHints());
    }
    return slice;
  }

  EndpointHints SomeHints() {
    EndpointHints hints;
    if (Chance(80)) hints.zones.push_back(Zone());
    if (Chance(50)) hints.nodes.push_back(NodeName());
    return hints;
  }

  EndpointConditions SomeConditions() {
    constexpr EndpointConditions kAll[] = {
        kReady, kReadyTerminating, kServingTerminating, kServingOnly, kDown, kDownTerminating};
    return Chance(60) ? kReady : kAll[Below(6)];
  }

  std::mt19937 random_;
  std::map<std::pair<std::string, std::string>, uint32_t> seeds_;  // By object and part.
};

}  // namespace svcmap::proxy::test
