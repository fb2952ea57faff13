// Converts the names and addresses of a Service. annotations.cc converts annotations,
// service_ports.cc converts the ports and limits the number of map elements, and
// service_policies.cc converts the policies and the selection of endpoints.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/convert/quote.h"
#include "api/convert/service_parts.h"

namespace svcmap::api {
namespace {

constexpr char kProxyNameLabel[] = "service.kubernetes.io/service-proxy-name";

// Returns whether svcmapd programs the Service (requirements S-1 and S-2).
bool IsProxied(const v1::Service& service, Report& report) {
  if (service.metadata().labels().contains(kProxyNameLabel)) return false;
  if (service.spec().type() == "ExternalName") return false;
  if (service.spec().cluster_ip() == "None") return false;
  if (!service.spec().cluster_ip().empty()) return true;
  if (service.spec().cluster_ips_size() == 0) {
    report.Warn("spec.clusterIP", Required("the Service is not programmed without a cluster IP"));
  } else {
    report.Reject("spec.clusterIP", Required(absl::StrCat("must be equal to spec.clusterIPs[0] ",
                                                          Quote(service.spec().cluster_ips(0)))));
  }
  return false;
}

std::optional<IpAddress> ParseClusterIp(std::string field, const std::string& text,
                                        Report& report) {
  const std::optional<IpAddress> address = IpAddress::Parse(text);
  if (!address) {
    report.Reject(std::move(field), Invalid(Quote(text), IpAddressDetail(text)));
    return std::nullopt;
  }
  // Link-local cluster IPs are accepted because Kubernetes accepts link-local ServiceCIDRs.
  const std::optional<std::string> special = SpecialAddress(*address);
  if (special && !address->IsLinkLocal()) {
    report.Reject(std::move(field), Invalid(Quote(text), *special));
    return std::nullopt;
  }
  return address;
}

// Returns spec.clusterIPs, or spec.clusterIP if spec.clusterIPs is empty. The Kubernetes API server
// keeps the first entry of spec.clusterIPs equal to spec.clusterIP.
std::vector<IpAddress> ParseClusterIps(const v1::ServiceSpec& spec, Report& report) {
  std::vector<IpAddress> addresses;
  const auto primary = ParseClusterIp("spec.clusterIP", spec.cluster_ip(), report);
  if (!primary) return addresses;
  WarnIfAmbiguous("spec.clusterIP", spec.cluster_ip(), *primary, report);
  if (spec.cluster_ips_size() == 0) return {*primary};
  if (spec.cluster_ips_size() > 2) {
    report.Reject("spec.clusterIPs",
                  TooMany(spec.cluster_ips_size(), 2, "use one for each IP family"));
    return addresses;
  }
  for (int i = 0; i < spec.cluster_ips_size(); ++i) {
    const std::string field = absl::StrCat("spec.clusterIPs[", i, "]");
    const auto address = ParseClusterIp(field, spec.cluster_ips(i), report);
    if (!address) return addresses;
    if (i > 0) WarnIfAmbiguous(field, spec.cluster_ips(i), *address, report);
    if (i == 0 && *address != *primary) {
      report.Reject(field, Invalid(Quote(spec.cluster_ips(i)),
                                   absl::StrCat("must be equal to spec.clusterIP ",
                                                Quote(spec.cluster_ip()))));
    } else if (i == 1 && address->family() == primary->family()) {
      const Family other = address->family() == Family::kIpv4 ? Family::kIpv6 : Family::kIpv4;
      report.Reject(field,
                    Invalid(Quote(spec.cluster_ips(i)),
                            absl::StrCat("must be an ", std::string(FamilyName(other)),
                                         " address because spec.clusterIPs[0] is an ",
                                         std::string(FamilyName(address->family())), " address")));
    }
    addresses.push_back(*address);
  }
  return addresses;
}

std::vector<Family> ParseFamilies(const v1::ServiceSpec& spec, Report& report) {
  std::vector<Family> families;
  if (spec.ip_families_size() > 2) {
    report.Reject("spec.ipFamilies", TooMany(spec.ip_families_size(), 2, "use each family once"));
    return families;
  }
  for (int i = 0; i < spec.ip_families_size(); ++i) {
    const std::string field = absl::StrCat("spec.ipFamilies[", i, "]");
    const std::string& text = spec.ip_families(i);
    if (text != "IPv4" && text != "IPv6") {
      report.Reject(field, Unsupported(text, {"IPv4", "IPv6"}));
      break;
    }
    const Family family = text == "IPv4" ? Family::kIpv4 : Family::kIpv6;
    if (i == 1 && families[0] == family) {
      report.Reject(field, Duplicate(Quote(text), ""));
      break;
    }
    families.push_back(family);
  }
  return families;
}

// Converts the cluster IPs (requirement S-3). Rejects Services that the Kubernetes API server would
// reject. Warns about an address without an entry in spec.ipFamilies, because such an address is
// ignored.
void ConvertClusterIps(const v1::ServiceSpec& spec, proxy::Service& service, Report& report) {
  const std::vector<IpAddress> addresses = ParseClusterIps(spec, report);
  std::vector<Family> families = ParseFamilies(spec, report);
  if (report.rejected()) return;
  if (families.empty()) families.push_back(addresses[0].family());
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::string field = spec.cluster_ips_size() == 0
                                  ? std::string("spec.clusterIP")
                                  : absl::StrCat("spec.clusterIPs[", i, "]");
    if (i >= families.size()) {
      report.Warn(field, Invalid(Quote(spec.cluster_ips(static_cast<int>(i))),
                                 "has no matching entry in spec.ipFamilies; the address is "
                                 "ignored"));
    } else if (addresses[i].family() != families[i]) {
      const std::string family(FamilyName(families[i]));
      report.Reject(
          field, Invalid(Quote(addresses[i].ToString()),
                         absl::StrCat("must be an ", family, " address because spec.ipFamilies[", i,
                                      "] is ", Quote(family))));
      return;
    } else {
      service.cluster_ip[Index(families[i])] = addresses[i];
    }
  }
}

// Converts spec.externalIPs (requirement S-6). Ignores multicast addresses, which the Kubernetes
// API server accepts unless they are link-local, and entries that are not addresses. Blank entries
// cause no warning. Rejects the other addresses that the API server rejects (ValidateEndpointIP),
// because such addresses would capture traffic of the node itself.
void ConvertExternalIps(const v1::ServiceSpec& spec, const ConvertContext& context,
                        proxy::Service& service, Report& report) {
  if (!context.external_ips && spec.external_ips_size() > 0) {
    report.Warn("spec.externalIPs",
                {proxy::FindingCode::kForbidden, "",
                 "svcmapd runs with --no-external-ips or without the feature gate "
                 "AllowServiceExternalIPs; the external IPs are not programmed"});
    return;
  }
  absl::flat_hash_set<IpAddress> seen;
  for (int i = 0; i < spec.external_ips_size(); ++i) {
    const std::string_view text = Trim(spec.external_ips(i));
    if (text.empty()) continue;
    const auto address = IpAddress::Parse(text);
    if (!address) {
      report.Warn(absl::StrCat("spec.externalIPs[", i, "]"),
                  Ignored(Invalid(Quote(spec.external_ips(i)), IpAddressDetail(text))));
      continue;
    }
    if (const auto special = SpecialAddress(*address)) {
      const std::string field = absl::StrCat("spec.externalIPs[", i, "]");
      FieldError error = Invalid(Quote(spec.external_ips(i)), *special);
      if (!address->IsMulticast()) return report.Reject(field, std::move(error));
      report.Warn(field, Ignored(std::move(error)));
      continue;
    }
    WarnIfAmbiguous(absl::StrCat("spec.externalIPs[", i, "]"), text, *address, report);
    if (seen.insert(*address).second) service.external_ips.push_back(*address);
  }
}

// Converts the load balancer IPs (requirement S-7). The Kubernetes API server checks only the
// syntax of load balancer IPs.
void ConvertLoadBalancerIps(const v1::ServiceStatus& status, proxy::Service& service,
                            Report& report) {
  absl::flat_hash_set<IpAddress> seen;
  const auto& ingresses = status.load_balancer().ingress();
  for (int i = 0; i < ingresses.size(); ++i) {
    const v1::LoadBalancerIngress& ingress = ingresses[i];
    const auto field = [i](const char* name) {
      return absl::StrCat("status.loadBalancer.ingress[", i, "].", name);
    };
    if (const std::string& mode = ingress.ip_mode(); !mode.empty()) {
      if (mode != "VIP" && mode != "Proxy") {
        report.Reject(field("ipMode"), Unsupported(mode, {"VIP", "Proxy"}));
        return;
      }
      if (mode == "Proxy") continue;
    }
    const std::string_view text = Trim(ingress.ip());
    if (text.empty()) continue;
    const auto address = IpAddress::Parse(text);
    if (!address) {
      report.Warn(field("ip"), Ignored(Invalid(Quote(ingress.ip()), IpAddressDetail(text))));
    } else if (address->IsUnspecified() || address->IsMulticast()) {
      report.Warn(field("ip"), Ignored(Invalid(Quote(ingress.ip()), *SpecialAddress(*address))));
    } else {
      WarnIfAmbiguous(field("ip"), text, *address, report);
      if (seen.insert(*address).second) service.load_balancer_ips.push_back(*address);
    }
  }
}

}  // namespace

Converted<proxy::Service> ConvertService(const v1::Service& message, std::string encoded,
                                         const ConvertContext& context) {
  Report report = ReportFor(proxy::Kind::kService, message.metadata());
  auto service = std::make_shared<proxy::Service>();
  service->key = report.key();
  service->created_unix_nanos = CreatedUnixNanos(message.metadata());
  service->proxied = IsProxied(message, report);
  if (service->proxied) {
    const v1::ServiceSpec& spec = message.spec();
    ConvertAnnotations(message, *service, report);
    ConvertPolicies(spec, *service, report);
    ConvertClusterIps(spec, *service, report);
    ConvertServicePorts(message, *service, report);
    ConvertExternalIps(spec, context, *service, report);
    ConvertLoadBalancerIps(message.status(), *service, report);
    ConvertSourceRanges(spec, *service, report);
    if (spec.has_reset_stale_tcp()) service->reset_stale_tcp = spec.reset_stale_tcp();
    ConvertEndpointPick(spec, *service, report);
    CheckServiceSize(message, *service, report);
  }
  service->message = std::move(encoded);
  return Finish(std::move(service), report);
}

}  // namespace svcmap::api
