// Metrics of the mirror, of Push and of certificates, which all sources have.
#pragma once

#include <string>
#include <vector>

#include "api/metrics/families.h"
#include "api/source/mirror.h"
#include "api/source/push.h"
#include "api/tls/tls_files.h"

namespace svcmap::source {

// Returns the metrics, whose names start with `prefix`, such as "svcmap_kube_". The names are never
// freed, so call the function once.
api::Catalogue PushMetrics(const std::string& prefix);

void AddPushMetrics(const std::string& prefix, const Mirror::Counts& mirror, const PushFacts& push,
                    const std::vector<api::CertificateExpiry>& certificates, api::Families& page);

}  // namespace svcmap::source
