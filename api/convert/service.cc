// Service: names and addresses. Its ports are in service_ports.cc, its policies in
// service_policies.cc.
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/convert/metadata.h"
#include "api/convert/quote.h"
#include "api/convert/service_policies.h"
#include "api/convert/service_ports.h"

namespace svcmap::api {
namespace {

constexpr char kProxyNameLabel[] = "service.kubernetes.io/service-proxy-name";

// S-1, S-2.
bool IsProxied(const v1::Service& service, Report& report) {
  if (service.metadata().labels().contains(kProxyNameLabel)) return false;
  if (service.spec().type() == "ExternalName") return false;
  if (service.spec().cluster_ip() == "None") return false;
  if (!service.spec().cluster_ip().empty()) return true;
  if (service.spec().cluster_ips_size() == 0) {
    report.Warn("spec.clusterIP", "", "is absent; nothing of the Service is programmed");
  } else {
    report.Refuse("spec.clusterIP", "",
                  absl::StrCat("is absent, but spec.clusterIPs[0] is ",
                               Quote(service.spec().cluster_ips(0)), "; both must be set"));
  }
  return false;
}

std::optional<IpAddress> ParseClusterIp(std::string field, const std::string& text,
                                        Report& report) {
  const std::optional<IpAddress> address = IpAddress::Parse(text);
  if (!address) {
    report.Refuse(std::move(field), Quote(text), "is not an IP address");
    return std::nullopt;
  }
  // A link-local clusterIP is odd, but Kubernetes lets a ServiceCIDR be link-local.
  const std::optional<std::string> special = SpecialAddress(*address);
  if (special && !address->IsLinkLocal()) {
    report.Refuse(std::move(field), Quote(text), *special);
    return std::nullopt;
  }
  return address;
}

// spec.clusterIPs, or spec.clusterIP alone, as Kubernetes fills one from the other.
std::vector<IpAddress> ParseClusterIps(const v1::ServiceSpec& spec, Report& report) {
  std::vector<IpAddress> addresses;
  const auto primary = ParseClusterIp("spec.clusterIP", spec.cluster_ip(), report);
  if (!primary) return addresses;
  if (spec.cluster_ips_size() == 0) return {*primary};
  if (spec.cluster_ips_size() > 2) {
    report.Refuse("spec.clusterIPs", "",
                  absl::StrCat("has ", spec.cluster_ips_size(),
                               " entries, more than one per address family"));
    return addresses;
  }
  for (int i = 0; i < spec.cluster_ips_size(); ++i) {
    const std::string field = absl::StrCat("spec.clusterIPs[", i, "]");
    const auto address = ParseClusterIp(field, spec.cluster_ips(i), report);
    if (!address) return addresses;
    if (i == 0 && *address != *primary) {
      report.Refuse(field, Quote(spec.cluster_ips(i)),
                    absl::StrCat("differs from spec.clusterIP ", Quote(spec.cluster_ip())));
    } else if (i == 1 && address->family() == primary->family()) {
      report.Refuse(field, Quote(spec.cluster_ips(i)),
                    absl::StrCat("is a second ", std::string(FamilyName(address->family())),
                                 " address; there is one per address family"));
    }
    addresses.push_back(*address);
  }
  return addresses;
}

std::vector<Family> ParseFamilies(const v1::ServiceSpec& spec, Report& report) {
  std::vector<Family> families;
  for (int i = 0; i < spec.ip_families_size(); ++i) {
    const std::string field = absl::StrCat("spec.ipFamilies[", i, "]");
    const std::string& text = spec.ip_families(i);
    if (text != "IPv4" && text != "IPv6") {
      report.Refuse(field, Quote(text), "is not IPv4 or IPv6");
      break;
    }
    const Family family = text == "IPv4" ? Family::kIpv4 : Family::kIpv6;
    if (i > 1 || (i == 1 && families[0] == family)) {
      report.Refuse(field, Quote(text), "is listed twice");
      break;
    }
    families.push_back(family);
  }
  return families;
}

// S-3. What Kubernetes would never let exist is refused; an address that S-3 passes over is warned
// about, since its controller surely meant something by it.
void ConvertClusterIps(const v1::ServiceSpec& spec, proxy::Service& service, Report& report) {
  const std::vector<IpAddress> addresses = ParseClusterIps(spec, report);
  std::vector<Family> families = ParseFamilies(spec, report);
  if (report.refused()) return;
  if (families.empty()) families.push_back(addresses[0].family());
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::string field = spec.cluster_ips_size() == 0
                                  ? std::string("spec.clusterIP")
                                  : absl::StrCat("spec.clusterIPs[", i, "]");
    if (i >= families.size()) {
      report.Warn(field, Quote(spec.cluster_ips(static_cast<int>(i))),
                  "has no entry in spec.ipFamilies; it is skipped");
    } else if (addresses[i].family() != families[i]) {
      report.Refuse(field, Quote(addresses[i].ToString()),
                    absl::StrCat("is not an ", std::string(FamilyName(families[i])),
                                 " address as spec.ipFamilies[", i, "] says"));
      return;
    } else {
      service.cluster_ip[Index(families[i])] = addresses[i];
    }
  }
}

// S-6: what is no address is skipped, blanks without a word. Addresses that Kubernetes refuses here
// would capture the node's own traffic.
void ConvertExternalIps(const v1::ServiceSpec& spec, const ConvertContext& context,
                        proxy::Service& service, Report& report) {
  if (!context.external_ips && spec.external_ips_size() > 0) {
    report.Warn("spec.externalIPs", "", "is not programmed: svcmapd runs with --no-external-ips");
    return;
  }
  absl::flat_hash_set<IpAddress> seen;
  for (int i = 0; i < spec.external_ips_size(); ++i) {
    const std::string_view text = Trim(spec.external_ips(i));
    if (text.empty()) continue;
    const auto address = IpAddress::Parse(text);
    if (!address) {
      report.Warn(absl::StrCat("spec.externalIPs[", i, "]"), Quote(spec.external_ips(i)),
                  "is not an IP address; it is skipped");
      continue;
    }
    if (const auto special = SpecialAddress(*address)) {
      report.Refuse(absl::StrCat("spec.externalIPs[", i, "]"), Quote(spec.external_ips(i)),
                    *special);
      return;
    }
    if (seen.insert(*address).second) service.external_ips.push_back(*address);
  }
}

// S-7. Kubernetes checks these for syntax alone.
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
        report.Refuse(field("ipMode"), Quote(mode), "is not VIP or Proxy");
        return;
      }
      if (mode == "Proxy") continue;
    }
    const std::string_view text = Trim(ingress.ip());
    if (text.empty()) continue;
    const auto address = IpAddress::Parse(text);
    if (!address) {
      report.Warn(field("ip"), Quote(ingress.ip()), "is not an IP address; it is skipped");
    } else if (address->IsUnspecified() || address->IsMulticast()) {
      report.Warn(field("ip"), Quote(ingress.ip()),
                  absl::StrCat(*SpecialAddress(*address), "; it is skipped"));
    } else if (seen.insert(*address).second) {
      service.load_balancer_ips.push_back(*address);
    }
  }
}

}  // namespace

Converted<proxy::Service> ConvertService(const v1::Service& message,
                                         const ConvertContext& context) {
  Report report = ReportFor(proxy::Kind::kService, message.metadata());
  auto service = std::make_shared<proxy::Service>();
  service->key = report.key();
  service->created_unix_nanos = CreatedUnixNanos(message.metadata());
  service->proxied = IsProxied(message, report);
  if (service->proxied) {
    ConvertPolicies(message.spec(), *service, report);
    ConvertClusterIps(message.spec(), *service, report);
    ConvertServicePorts(message.spec(), *service, report);
    ConvertExternalIps(message.spec(), context, *service, report);
    ConvertLoadBalancerIps(message.status(), *service, report);
    ConvertSourceRanges(message.spec(), *service, report);
  }
  if (!report.refused()) service->message = Serialize(message);
  return Finish(std::move(service), report);
}

}  // namespace svcmap::api
