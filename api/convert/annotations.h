// The annotations that svcmapd reads. Kubernetes does not validate annotations, so an invalid value
// is ignored with a warning. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

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
