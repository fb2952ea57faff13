// The parts of ConvertService that have their own files, and the annotations that svcmapd reads.
// Kubernetes does not validate annotations, so an invalid value is ignored with a warning. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/convert/fields.h"
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

// Of an EndpointSlice: the time of the event that caused its last change (requirement S-346).
inline constexpr char kTriggerTimeAnnotation[] = "endpoints.kubernetes.io/last-change-trigger-time";

// Of a Service.
inline constexpr char kEndPortsAnnotation[] = "svcmap/end-ports";
inline constexpr char kNoLocalEndpointAnnotation[] = "svcmap/no-local-endpoint";
inline constexpr char kPickTableSizeAnnotation[] = "svcmap/pick-table-size";

// Returns the weight of the slice's endpoints that have no weight. Warns about other annotations of
// the slice that begin with "svcmap/".
uint32_t DefaultWeight(const v1::ObjectMeta& slice, Report& report);

// Returns true for annotations that the agent uses, or warns about.
bool IsUsedAnnotation(std::string_view key);

// Returns the value of the annotation, or nullptr.
const std::string* FindAnnotation(const v1::ObjectMeta& metadata, const char* name);

// Returns the path of the annotation for findings.
std::string AnnotationField(const char* name);

// Fills the fields of `service` that an annotation with a single value sets, unless a field of the
// spec takes precedence. Warns about unknown annotations that begin with "svcmap/".
void ConvertAnnotations(const v1::Service& message, proxy::Service& service, Report& report);

}  // namespace svcmap::api
