#include "api/convert/service_parts.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "proxy/state/limits.h"
#include "proxy/state/store.h"

namespace svcmap::api {
namespace {

using proxy::PickBy;

constexpr char kPickField[] = "spec.endpointPick";
constexpr char kSizeField[] = "spec.pickTableSize";

std::optional<PickBy> ParsePick(std::string_view text) {
  if (text == "Random") return PickBy::kRandom;
  if (text == "ClientIP") return PickBy::kClient;
  if (text == "ClientIPAndPort") return PickBy::kClientAndPort;
  return std::nullopt;
}

bool IsTableSize(int32_t size) {
  return absl::c_linear_search(proxy::kHashTableSizes, static_cast<uint32_t>(size));
}

// Returns the annotation, or nullptr.
const std::string* FindAnnotation(const v1::Service& message, const char* name) {
  const auto found = message.metadata().annotations().find(name);
  return found == message.metadata().annotations().end() ? nullptr : &found->second;
}

std::string FieldOf(const char* annotation) {
  return absl::StrCat("metadata.annotations[", Quote(annotation), "]");
}

PickBy PickOf(const v1::Service& message, Report& report) {
  if (const std::string& text = message.spec().endpoint_pick(); !text.empty()) {
    CheckOneOf(kPickField, text, {"Random", "ClientIP", "ClientIPAndPort"}, report);
    return ParsePick(text).value_or(PickBy::kRandom);
  }
  const std::string* text = FindAnnotation(message, kEndpointPickAnnotation);
  if (text == nullptr) return PickBy::kRandom;
  const std::optional<PickBy> pick = ParsePick(*text);
  if (!pick) {
    report.Warn(FieldOf(kEndpointPickAnnotation),
                Invalid(Quote(*text),
                        "must be \"Random\", \"ClientIP\" or \"ClientIPAndPort\"; endpoints are "
                        "picked at random"));
  }
  return pick.value_or(PickBy::kRandom);
}

uint32_t TableSizeOf(const v1::Service& message, Report& report) {
  constexpr char kExpected[] = "must be 251, 1021 or 4093";
  if (const int32_t size = message.spec().pick_table_size(); size != 0) {
    if (IsTableSize(size)) return static_cast<uint32_t>(size);
    report.Reject(kSizeField, Invalid(absl::StrCat(size), kExpected));
    return 0;
  }
  const std::string* text = FindAnnotation(message, kPickTableSizeAnnotation);
  if (text == nullptr) return 0;
  int32_t size = 0;
  // SimpleAtoi also accepts spaces and leading zeros.
  const bool valid =
      absl::SimpleAtoi(*text, &size) && IsTableSize(size) && *text == absl::StrCat(size);
  if (valid) return static_cast<uint32_t>(size);
  report.Warn(FieldOf(kPickTableSizeAnnotation),
              Invalid(Quote(*text), absl::StrCat(kExpected, "; the default is used")));
  return 0;
}

}  // namespace

void ConvertEndpointPick(const v1::Service& message, proxy::Service& service, Report& report) {
  const PickBy pick_by = PickOf(message, report);
  service.pick_table_size = TableSizeOf(message, report);
  if (report.rejected()) return;
  if (pick_by == PickBy::kRandom) {
    if (service.pick_table_size != 0) {
      const bool is_field = message.spec().pick_table_size() != 0;
      report.Warn(
          is_field ? kSizeField : FieldOf(kPickTableSizeAnnotation),
          {proxy::FindingCode::kForbidden, "", "has no effect with spec.endpointPick \"Random\""});
    }
    return;
  }
  if (service.affinity_seconds != 0) {
    report.Warn(kPickField, {proxy::FindingCode::kForbidden, "",
                             "has no effect with spec.sessionAffinity \"ClientIP\""});
    return;
  }
  service.pick_by = pick_by;
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
