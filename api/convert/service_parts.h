// The parts of ConvertService that have their own files. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Fills service.ports. Rejects the Service if a number is out of range, a protocol is unknown, or a
// name is missing or duplicate. Also rejects duplicate pairs of port and protocol, or of nodePort
// and protocol. Warns about entries of the annotation svcmap/end-ports that have no effect.
void ConvertServicePorts(const v1::Service& message, proxy::Service& service, Report& report);

// Fills the traffic policies (requirement S-10), the health check port (S-13) and the session
// affinity (S-14). Rejects unknown values and numbers that are out of range. The annotations must
// already be converted.
void ConvertPolicies(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

// Fills service.source_ranges (requirement S-11). Warns if no range has the IP family of a load
// balancer IP, because that load balancer IP accepts traffic from all sources (S-12). The addresses
// of `service` must already be converted.
void ConvertSourceRanges(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

// Fills service.pick_by and service.pick_table_size from the fields of the spec. Rejects invalid
// fields. The annotations, the session affinity and the ports must already be converted.
void ConvertEndpointPick(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

// Returns nullopt for an unknown name.
std::optional<proxy::PickBy> ParsePick(std::string_view text);
// Returns true for a valid size of a hash table.
bool IsTableSize(int32_t size);

// Rejects the Service if a family exceeds kMaxPortsTimesAddresses. Removes the port ranges of the
// annotation svcmap/end-ports instead, with a warning, if this is sufficient. Call after all ports
// and addresses are converted. nodePorts do not count, because the operator selects the node
// addresses.
void CheckServiceSize(const v1::Service& message, proxy::Service& service, Report& report);

}  // namespace svcmap::api
