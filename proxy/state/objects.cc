#include "proxy/state/objects.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace svcmap::proxy {

bool ExternallyAccessible(const Service& service, Family family, const ServicePort& port) {
  const auto in_family = [family](const IpAddress& address) { return address.family() == family; };
  return port.node_port != 0 ||
         std::any_of(service.load_balancer_ips.begin(), service.load_balancer_ips.end(),
                     in_family) ||
         std::any_of(service.external_ips.begin(), service.external_ips.end(), in_family);
}

std::string Finding::ToString() const {
  std::string text =
      absl::StrCat(std::string(KindName(kind)), " ", key, refused() ? " refused: " : ": ");
  if (!field.empty()) absl::StrAppend(&text, field, " ");
  if (!value.empty()) absl::StrAppend(&text, value, " ");
  absl::StrAppend(&text, reason,
                  severity == Severity::kRefused ? "; its last good state stays" : "");
  return text;
}

}  // namespace svcmap::proxy
