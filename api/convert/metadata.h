// Names of objects: which object a message is about, and whether it may be called so.
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Lower case letters, digits and inner "-", at most 63 bytes: namespaces and port names.
bool IsDnsLabel(std::string_view name);
// Such labels joined by ".", at most 253 bytes in all: object names.
bool IsDnsSubdomain(std::string_view name);

constexpr bool IsNamespaced(proxy::Kind kind) {
  return kind == proxy::Kind::kService || kind == proxy::Kind::kEndpointSlice;
}

// "namespace/name" or "name". Bad names give a key as well, fit to be shown; no held object has it.
std::string KeyFor(proxy::Kind kind, std::string_view name_space, std::string_view name);

// Refuses missing and malformed names. `prefix` is where they stand: "metadata." or "".
void CheckNames(proxy::Kind kind, std::string_view name_space, std::string_view name,
                std::string_view prefix, Report& report);

// A report about the object of this metadata, with the names already checked.
Report ReportFor(proxy::Kind kind, const v1::ObjectMeta& metadata);

// metadata.creationTimestamp in nanoseconds; 0 if absent, at least 1 otherwise.
int64_t CreatedUnixNanos(const v1::ObjectMeta& metadata);

}  // namespace svcmap::api
