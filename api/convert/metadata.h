// Names, keys and metadata of objects. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Returns true if `name` is a DNS-1123 label, as required for namespaces, Services and ports
// (IsDNS1123Label in Kubernetes).
bool IsDnsLabel(std::string_view name);

// Returns "namespace/name" or "name". For an invalid name, the key is escaped for display, and no
// stored object has the escaped key.
std::string KeyFor(proxy::Kind kind, std::string_view name_space, std::string_view name);
// Returns false if KeyFor returned `key` for an object without a name.
bool IsNamed(std::string_view key);

// Rejects missing and malformed names. `prefix` is the path of the fields: "metadata." or "".
void CheckNames(proxy::Kind kind, std::string_view name_space, std::string_view name,
                std::string_view prefix, Report& report);

// Returns a new report about the object with `metadata`, which contains the result of CheckNames.
Report ReportFor(proxy::Kind kind, const v1::ObjectMeta& metadata);

// Returns metadata.creationTimestamp in nanoseconds since the Unix epoch (at least 1), or 0 if the
// field is absent.
int64_t CreatedUnixNanos(const v1::ObjectMeta& metadata);

}  // namespace svcmap::api
