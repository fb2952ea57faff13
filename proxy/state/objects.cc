#include "proxy/state/objects.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace svcmap::proxy {

bool ExternallyAccessible(const Service& service, Family family, const ServicePort& port) {
  const auto in_family = [family](const IpAddress& address) { return address.family() == family; };
  return port.node_port != 0 || std::ranges::any_of(service.load_balancer_ips, in_family) ||
         std::ranges::any_of(service.external_ips, in_family);
}

bool Service::HasSourceRanges(Family family) const {
  return std::ranges::find(source_ranges, family, &IpPrefix::family) != source_ranges.end();
}

const std::string* Change::message() const {
  if (service) return &service->message;
  if (slice) return &slice->message;
  if (node) return &node->message;
  return service_cidr ? &service_cidr->message : nullptr;
}

std::string_view CategoryOf(FindingCode code) {
  // By FindingCode. The other codes have no category.
  constexpr std::string_view kCategories[] = {"Invalid value",
                                              "Required value",
                                              "Unsupported value",
                                              "Duplicate value",
                                              "Too many",
                                              "Forbidden",
                                              "",
                                              "Invalid value"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kCategories) ? kCategories[index] : "";
}

std::string Finding::ToString() const {
  std::string text =
      absl::StrCat(std::string(KindName(kind)), " ", key, rejected() ? " rejected" : "");
  for (const std::string_view part : {std::string_view(field), CategoryOf(code),
                                      std::string_view(value), std::string_view(reason)}) {
    if (!part.empty()) absl::StrAppend(&text, ": ", std::string(part));
  }
  if (severity == Severity::kRejected) {
    text += "; the previously accepted version, if any, stays in effect";
    if (kind == Kind::kEndpointSlice && code != FindingCode::kUnreadable) {
      text += ", without endpoints that are missing from the rejected version";
    }
  }
  return text;
}

}  // namespace svcmap::proxy
