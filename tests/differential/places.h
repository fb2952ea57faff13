// Addresses of random scenarios, and the hosts that own these addresses in the network of
// differential_world.h.
#pragma once

#include <cstdint>

#include "tests/support/topology.h"

namespace svcmap::testing {

// An IPv4 and an IPv6 address.
struct Place {
  const char* v4;
  const char* v6;
  const char* in(bool want_v6) const { return want_v6 ? v6 : v4; }
};

// Hosts that can be endpoints: two pods on this node, two remote pods, and host network processes
// on this node and on a remote node.
struct EndpointHost {
  const char* name;
  Place ip;
  const char* node;
};
inline constexpr EndpointHost kEndpointHosts[] = {
    {"pod-a", {"10.244.1.11", "fd00:10:244:1::11"}, "n1"},
    {"pod-b", {"10.244.1.12", "fd00:10:244:1::12"}, "n1"},
    {"remote-a", {"10.244.2.11", "fd00:10:244:2::11"}, "n2"},
    {"remote-b", {"10.244.2.12", "fd00:10:244:2::12"}, "n3"},
    {"node", {kNodeV4, kNodeV6}, "n1"},
    {"remote", {"192.168.77.2", "fd00:77::2"}, "n2"},
};
inline constexpr const EndpointHost& kOnNode = kEndpointHosts[4];
inline constexpr const EndpointHost& kOnRemote = kEndpointHosts[5];
inline constexpr uint16_t kEndpointPorts[] = {8080, 8081, 8082};

// Addresses that Services may have. The host "outside" also has these addresses, so that this host
// answers untranslated packets.
inline constexpr Place kClusterIps[] = {
    {"10.96.0.1", "fd00:96::1"}, {"10.96.0.2", "fd00:96::2"}, {"10.96.0.3", "fd00:96::3"},
    {"10.96.0.4", "fd00:96::4"}, {"10.96.0.5", "fd00:96::5"}, {"10.96.0.6", "fd00:96::6"},
    {"10.97.0.1", "fd00:97::1"},  // An address that is usually outside all ServiceCIDRs.
};
inline constexpr Place kExternalIps[] = {
    {"198.51.100.40", "2001:db8:51::40"},
    {"198.51.100.41", "2001:db8:51::41"},
    // An address in the Service range that is not the clusterIP of any Service.
    {"10.96.0.50", "fd00:96::50"},
};
inline constexpr Place kLoadBalancerIps[] = {
    {"198.51.100.20", "2001:db8:51::20"},
    {"198.51.100.21", "2001:db8:51::21"},
};

// Addresses of the node. The server kNodeProcess on the node answers on kProbedPorts.
inline constexpr const char* kNodeProcess = "node-process";
inline constexpr Place kNodePlaces[] = {{kNodeV4, kNodeV6}, {kNodeSecondV4, kNodeSecondV6}};
inline constexpr Place kLoopback = {"127.0.0.1", "::1"};

inline constexpr uint16_t kServicePorts[] = {80, 81, 443, 30080};
inline constexpr uint16_t kNodePorts[] = {30080, 30081, 30082, 30083};
inline constexpr uint16_t kProbedPorts[] = {80, 81, 443, 30080, 30081, 30082, 30083};

// Two addresses of a client, which are additional sources of connections.
inline constexpr Place kClientPlaces[] = {{"203.0.113.9", "2001:db8:203::9"},
                                          {"203.0.113.200", "2001:db8:204::200"}};

}  // namespace svcmap::testing
