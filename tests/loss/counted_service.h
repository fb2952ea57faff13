// A Service whose packets the packet-loss tests count.
//
// Clients send all datagrams of a Service from the Service's source port, and each Service has its
// own target port. The node changes neither of these ports. Therefore, the source port of a
// datagram identifies the Service that the client used, and the destination port identifies the
// Service that the node selected. Clients of a Service with a port range use the target port,
// because the node does not change the ports of ranges.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "tests/support/agent.h"
#include "tests/support/builders.h"

namespace svcmap::testing {

inline constexpr char kCountedSources[] = "10.244.128.0/17";  // Addresses of the clients.
inline constexpr uint32_t kFirstCountedSource = 0x0af48000;   // 10.244.128.0
inline constexpr int kCountedSourceCount = 32768;
inline constexpr char kCountedEndpoints[] = "10.244.1.128/25";
inline constexpr char kOtherNode[] = "n2";
// The load balancer IPs of counted Services.
inline constexpr char kCountedLoadBalancers[] = "203.0.113.0/24";
inline constexpr uint16_t kCountedPort = 53;
inline constexpr int kCountedAffinitySeconds = 60;

// Returns 10.244.1.(128 + n). `n` must be below 128.
std::string CountedEndpoint(int n);

struct CountedService {
  int number = 0;  // Number of the Service, which determines the address and the ports.
  std::string key;
  std::set<int> endpoints;  // Arguments of CountedEndpoint.
  std::string node = kAgentNode;
  // More endpoints, on another node. No client may reach them.
  std::set<int> remote_endpoints = {};
  int affinity_seconds = 0;  // 0: no session affinity.
  // True: clients use a load balancer IP instead of the cluster IP.
  bool load_balancer = false;
  // Number of source ranges that do not contain the clients. If it is not 0, one more range
  // contains them. Only for load balancer IPs.
  int other_ranges = 0;
  // False: no client may reach an endpoint with its own address, because no source range contains
  // the clients, or because they must be masqueraded.
  bool permitted = true;
  bool exists = true;
  // If first_port is not 0, the Service has these ports, which must contain the target port.
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  int other_ports = 0;    // Number of ports that no client uses, at most 99.
  bool weighted = false;  // True: endpoints with odd numbers have three times as many slots.

  std::string cluster_ip() const;
  std::string address() const;  // The address that clients use.
  uint16_t source_port() const { return static_cast<uint16_t>(10000 + number); }
  uint16_t port() const { return first_port == 0 ? kCountedPort : target_port(); }
  uint16_t target_port() const { return static_cast<uint16_t>(9000 + number); }

  v1::Object Service() const;
  v1::Object Slice() const;
  Objects All() const { return {Service(), Slice()}; }
};

}  // namespace svcmap::testing
