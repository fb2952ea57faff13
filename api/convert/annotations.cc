#include "api/convert/service_parts.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

// An annotation of a Service that sets one field.
struct ServiceAnnotation {
  const char* name;
  const char* expected;  // The end of the warning about an invalid value.
  // Returns true if a field of the spec takes precedence over the annotation.
  bool (*has_field)(const v1::ServiceSpec& spec);
  // Sets the field. Returns false if the value is invalid.
  bool (*read)(const std::string& value, proxy::Service& service);
};

bool ReadPick(const std::string& value, proxy::Service& service) {
  const std::optional<proxy::PickBy> pick = ParsePick(value);
  service.pick_by = pick.value_or(proxy::PickBy::kRandom);
  return pick.has_value();
}

// SimpleAtoi also accepts spaces and leading zeros.
bool ReadTableSize(const std::string& value, proxy::Service& service) {
  int32_t size = 0;
  if (!absl::SimpleAtoi(value, &size) || !IsTableSize(size) || value != absl::StrCat(size)) {
    return false;
  }
  service.pick_table_size = static_cast<uint32_t>(size);
  return true;
}

bool ReadResetStaleTcp(const std::string& value, proxy::Service& service) {
  if (value != "true" && value != "false") return false;
  service.reset_stale_tcp = value == "true";
  return true;
}

bool ReadNoLocalEndpoint(const std::string& value, proxy::Service& service) {
  service.route_without_local = value == "route";
  return service.route_without_local;
}

constexpr ServiceAnnotation kServiceAnnotations[] = {
    {"svcmap/endpoint-pick",
     "must be \"Random\", \"ClientIP\" or \"ClientIPAndPort\"; endpoints are picked at random",
     [](const v1::ServiceSpec& spec) { return !spec.endpoint_pick().empty(); }, ReadPick},
    {kNoLocalEndpointAnnotation, "must be \"route\"; the annotation is ignored",
     [](const v1::ServiceSpec&) { return false; }, ReadNoLocalEndpoint},
    {kPickTableSizeAnnotation, "must be 251, 1021 or 4093; the default is used",
     [](const v1::ServiceSpec& spec) { return spec.pick_table_size() != 0; }, ReadTableSize},
    {"svcmap/reset-stale-tcp", "must be \"true\" or \"false\"; the annotation is ignored",
     [](const v1::ServiceSpec& spec) { return spec.has_reset_stale_tcp(); }, ReadResetStaleTcp},
};

constexpr char kWeightAnnotation[] = "svcmap/weight";  // Of an EndpointSlice.

constexpr std::string_view kPrefix = "svcmap/";  // No other software defines such annotations.

// Warns about annotations with this prefix that `known` does not contain, for example because of a
// spelling mistake.
void WarnAboutUnknown(const v1::ObjectMeta& metadata, const std::vector<std::string>& known,
                      Report& report) {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : metadata.annotations()) {
    if (name.starts_with(kPrefix) && !absl::c_linear_search(known, name)) unknown.push_back(name);
  }
  absl::c_sort(unknown);
  for (const std::string& name : unknown) {
    report.Warn(AnnotationField(name.c_str()),
                {proxy::FindingCode::kForbidden, "",
                 absl::StrCat("unknown annotation, must be one of ", absl::StrJoin(known, ", "),
                              "; the annotation is ignored")});
  }
}

}  // namespace

bool IsUsedAnnotation(std::string_view key) {
  return key.starts_with(kPrefix) || key == kTriggerTimeAnnotation;
}

const std::string* FindAnnotation(const v1::ObjectMeta& metadata, const char* name) {
  const auto found = metadata.annotations().find(name);
  return found == metadata.annotations().end() ? nullptr : &found->second;
}

std::string AnnotationField(const char* name) {
  return absl::StrCat("metadata.annotations[", Quote(name), "]");
}

uint32_t DefaultWeight(const v1::ObjectMeta& slice, Report& report) {
  static const std::vector<std::string> kKnown = {kWeightAnnotation};
  WarnAboutUnknown(slice, kKnown, report);
  const std::string* text = FindAnnotation(slice, kWeightAnnotation);
  if (text == nullptr) return 1;
  uint32_t weight = 0;
  if (absl::SimpleAtoi(*text, &weight) && weight <= proxy::kMaxWeight) return weight;
  report.Warn(AnnotationField(kWeightAnnotation),
              Invalid(Quote(*text), absl::StrCat("must be a number between 0 and ",
                                                 proxy::kMaxWeight, "; the weight 1 is used")));
  return 1;
}

void ConvertAnnotations(const v1::Service& message, proxy::Service& service, Report& report) {
  static const std::vector<std::string> kKnown = [] {
    std::vector<std::string> known = {kEndPortsAnnotation};
    for (const ServiceAnnotation& annotation : kServiceAnnotations) {
      known.emplace_back(annotation.name);
    }
    return known;
  }();
  WarnAboutUnknown(message.metadata(), kKnown, report);
  for (const ServiceAnnotation& annotation : kServiceAnnotations) {
    const std::string* value = FindAnnotation(message.metadata(), annotation.name);
    if (value == nullptr || annotation.has_field(message.spec())) continue;
    if (!annotation.read(*value, service)) {
      report.Warn(AnnotationField(annotation.name), Invalid(Quote(*value), annotation.expected));
    }
  }
}

}  // namespace svcmap::api
