// What the wanted state says about one destination, whoever asks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proxy/explain/explain.h"

namespace svcmap::proxy {

enum class Role : uint8_t { kClusterIp, kExternalIp, kLoadBalancerIp, kNodePort };

std::string RoleName(Role role);  // "clusterIP"

struct Destination {
  IpAddress address;
  Protocol protocol = Protocol::kTcp;
  uint16_t number = 0;  // The port it is called with.
  bool local = false;   // An address of this node.

  // Whose it is.
  const ServiceEntry* entry = nullptr;  // Null: nobody's.
  const ServicePort* port = nullptr;
  Role role = Role::kClusterIp;
  ResolvedEndpoints resolved;

  std::string cluster_ip_of;         // A Service whose clusterIP the address is; empty: none.
  std::string listed_by;             // One that has it as external or load balancer IP.
  std::optional<IpAddress> chained;  // An endpoint that is a clusterIP itself.
  const IpPrefix* service_cidr = nullptr;

  bool known() const { return entry != nullptr; }
  const Service& service() const { return *entry->service; }
  Family family() const { return address.family(); }
  std::string Name() const { return service().key + (port->name.empty() ? "" : ":" + port->name); }
};

Destination FindDestination(const ExplainContext& context, const Question& question);

}  // namespace svcmap::proxy
