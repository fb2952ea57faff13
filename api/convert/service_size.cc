#include "api/convert/service_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "api/convert/annotations.h"
#include "api/convert/quote.h"
#include "proxy/state/store.h"

namespace svcmap::api {
namespace {

// Maximum number of ports times addresses of a Service for each IP family. A port range counts as
// proxy::PortElementCount() ports. Each port has one map element for each clusterIP, externalIP and
// load balancer IP. A few kilobytes of ports and addresses can multiply to millions of map
// elements: a Service with 5 million elements used 2 GB of memory, and each commit took 15 s. A
// Service can use all 65,535 ports of a protocol at one address of each family.
constexpr size_t kMaxPortsTimesAddresses = 65'536;

size_t CountOfFamily(const std::vector<IpAddress>& addresses, Family family) {
  return static_cast<size_t>(
      std::count_if(addresses.begin(), addresses.end(),
                    [family](const IpAddress& address) { return address.family() == family; }));
}

// Counts an address with several roles once, because such an address has one map element per port.
size_t CountAddresses(const proxy::Service& service, Family family) {
  absl::flat_hash_set<IpAddress> addresses = {*service.cluster_ip[Index(family)]};
  for (const auto* list : {&service.external_ips, &service.load_balancer_ips}) {
    for (const IpAddress& address : *list) {
      if (address.family() == family) addresses.insert(address);
    }
  }
  return addresses.size();
}

// Returns the field that contributes most to the size of the Service, and the number of its items.
std::pair<std::string, size_t> LargestField(const proxy::Service& service, Family family,
                                            size_t addresses) {
  if (service.ports.size() >= addresses) return {"spec.ports", service.ports.size()};
  const size_t external = CountOfFamily(service.external_ips, family);
  const size_t load_balancer = CountOfFamily(service.load_balancer_ips, family);
  if (external >= load_balancer) return {"spec.externalIPs", external};
  return {"status.loadBalancer.ingress", load_balancer};
}

// A reason to reject the Service.
struct SizeError {
  std::string field;
  FieldError error;
};

std::optional<SizeError> FindSizeError(const proxy::Service& service) {
  size_t ports = 0;
  bool any_range = false;
  for (const proxy::ServicePort& port : service.ports) {
    ports += proxy::PortElementCount(port);
    any_range |= port.is_range();
  }
  for (const Family family : kFamilies) {
    if (!service.cluster_ip[Index(family)]) continue;  // The family is not programmed.
    const size_t addresses = CountAddresses(service, family);
    if (ports * addresses <= kMaxPortsTimesAddresses) continue;
    const auto [field, items] = LargestField(service, family, addresses);
    return SizeError{
        field,
        {proxy::FindingCode::kTooMany, absl::StrCat(items),
         absl::StrCat("the number of ", any_range ? "map elements of the ports (" : "ports (",
                      ports, ") times the number of ", std::string(FamilyName(family)),
                      " addresses (", addresses, ") exceeds svcmap's limit of ",
                      kMaxPortsTimesAddresses)}};
  }
  return std::nullopt;
}

}  // namespace

void CheckServiceSize(const v1::Service& message, proxy::Service& service, Report& report) {
  std::optional<SizeError> found = FindSizeError(service);
  const std::string* end_ports = FindAnnotation(message.metadata(), kEndPortsAnnotation);
  if (found && end_ports != nullptr && !report.rejected()) {
    // The annotation must not affect the other ports.
    report.Warn(AnnotationField(kEndPortsAnnotation),
                {proxy::FindingCode::kTooMany, Quote(*end_ports),
                 found->error.detail + "; the annotation is ignored"});
    for (size_t i = 0; i < service.ports.size(); ++i) {
      service.ports[i].end_port =
          static_cast<uint16_t>(message.spec().ports(static_cast<int>(i)).end_port());
    }
    found = FindSizeError(service);
  }
  if (found) report.Reject(std::move(found->field), std::move(found->error));
}

}  // namespace svcmap::api
