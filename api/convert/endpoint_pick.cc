#include "api/convert/service_parts.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "api/convert/annotations.h"
#include "api/convert/fields.h"
#include "proxy/state/limits.h"
#include "proxy/state/store.h"

namespace svcmap::api {
namespace {

using proxy::PickBy;

constexpr char kPickField[] = "spec.endpointPick";
constexpr char kSizeField[] = "spec.pickTableSize";

}  // namespace

std::optional<PickBy> ParsePick(std::string_view text) {
  if (text == "Random") return PickBy::kRandom;
  if (text == "ClientIP") return PickBy::kClient;
  if (text == "ClientIPAndPort") return PickBy::kClientAndPort;
  return std::nullopt;
}

bool IsTableSize(int32_t size) {
  return absl::c_linear_search(proxy::kHashTableSizes, static_cast<uint32_t>(size));
}

void ConvertEndpointPick(const v1::ServiceSpec& spec, proxy::Service& service, Report& report) {
  if (const std::string& pick = spec.endpoint_pick(); !pick.empty()) {
    CheckOneOf(kPickField, pick, {"Random", "ClientIP", "ClientIPAndPort"}, report);
    service.pick_by = ParsePick(pick).value_or(PickBy::kRandom);
  }
  if (const int32_t size = spec.pick_table_size(); size != 0) {
    if (!IsTableSize(size)) {
      report.Reject(kSizeField, Invalid(absl::StrCat(size), "must be 251, 1021 or 4093"));
    }
    service.pick_table_size = static_cast<uint32_t>(size);
  }
  if (report.rejected()) return;
  if (service.pick_by == PickBy::kRandom) {
    if (service.pick_table_size != 0) {
      report.Warn(
          spec.pick_table_size() != 0 ? kSizeField : AnnotationField(kPickTableSizeAnnotation),
          {proxy::FindingCode::kForbidden, "", "has no effect with spec.endpointPick \"Random\""});
    }
    return;
  }
  if (service.affinity_seconds != 0) {
    service.pick_by = PickBy::kRandom;
    report.Warn(kPickField, {proxy::FindingCode::kForbidden, "",
                             "has no effect with spec.sessionAffinity \"ClientIP\""});
    return;
  }
  const uint64_t slots = proxy::CountedTableSize(service);
  if (service.ports.size() * slots <= proxy::kMaxPortsTimesEndpoints) return;
  report.Reject(
      "spec.ports",
      {proxy::FindingCode::kTooMany, absl::StrCat(service.ports.size()),
       absl::StrCat("with spec.endpointPick, the number of ports times the size of a hash "
                    "table (",
                    slots, ") exceeds svcmap's limit of ", proxy::kMaxPortsTimesEndpoints)});
}

}  // namespace svcmap::api
