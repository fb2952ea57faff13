#include "api/convert/service_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/quote.h"
#include "proxy/state/limits.h"
#include "proxy/state/store.h"

namespace svcmap::api {
namespace {

using proxy::TrafficPolicy;

constexpr uint32_t kDefaultAffinitySeconds = 10800;  // Three hours, the default of the API server.

// The policy Local applies only to externally accessible Services (requirement S-10). The API
// server rejects the policy Local for all other Services.
void ConvertExternalPolicy(const v1::ServiceSpec& spec, proxy::Service& service, Report& report) {
  if (spec.external_traffic_policy() != "Local") return;
  if (spec.type() == "LoadBalancer" || spec.type() == "NodePort" || spec.external_ips_size() > 0) {
    service.external_policy = TrafficPolicy::kLocal;
  } else {
    report.Warn("spec.externalTrafficPolicy",
                Invalid(Quote("Local"),
                        "has no effect for type ClusterIP without spec.externalIPs; \"Cluster\" is "
                        "used"));
  }
}

// Stores the health check port if the port has an effect (requirement S-13).
void ConvertHealthCheckNodePort(const v1::ServiceSpec& spec, proxy::Service& service,
                                Report& report) {
  const int32_t port = spec.health_check_node_port();
  if (port < 0 || port > 65535) {
    report.Reject("spec.healthCheckNodePort", OutOfRange(port, 0, 65535));
    return;
  }
  if (spec.type() != "LoadBalancer" || spec.external_traffic_policy() != "Local") return;
  if (port == 0) {
    report.Warn("spec.healthCheckNodePort",
                Required("without this port, load balancers cannot check whether this node has "
                         "endpoints"));
  }
  service.health_check_node_port = static_cast<uint16_t>(port);
}

// Stores the session affinity timeout (requirement S-14).
void ConvertAffinity(const v1::ServiceSpec& spec, proxy::Service& service, Report& report) {
  if (spec.session_affinity() != "ClientIP") return;
  const v1::ClientIPConfig& client_ip = spec.session_affinity_config().client_ip();
  if (!client_ip.has_timeout_seconds()) {
    service.affinity_seconds = kDefaultAffinitySeconds;
  } else if (client_ip.timeout_seconds() < 1 || client_ip.timeout_seconds() > 86400) {
    report.Reject("spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                  OutOfRange(client_ip.timeout_seconds(), 1, 86400));
  } else {
    service.affinity_seconds = static_cast<uint32_t>(client_ip.timeout_seconds());
  }
}

using proxy::PickBy;

constexpr char kPickField[] = "spec.endpointPick";
constexpr char kSizeField[] = "spec.pickTableSize";

}  // namespace

void ConvertPolicies(const v1::ServiceSpec& spec, proxy::Service& service, Report& report) {
  CheckOneOf("spec.type", spec.type(), {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
             report);
  CheckOneOf("spec.externalTrafficPolicy", spec.external_traffic_policy(), {"Cluster", "Local"},
             report);
  CheckOneOf("spec.internalTrafficPolicy", spec.internal_traffic_policy(), {"Cluster", "Local"},
             report);
  CheckOneOf("spec.sessionAffinity", spec.session_affinity(), {"None", "ClientIP"}, report);
  if (spec.internal_traffic_policy() == "Local") service.internal_policy = TrafficPolicy::kLocal;
  ConvertExternalPolicy(spec, service, report);
  if (service.route_without_local && service.external_policy != TrafficPolicy::kLocal) {
    report.Warn(AnnotationField(kNoLocalEndpointAnnotation),
                {proxy::FindingCode::kForbidden, "",
                 "has no effect without spec.externalTrafficPolicy \"Local\""});
  }
  ConvertHealthCheckNodePort(spec, service, report);
  ConvertAffinity(spec, service, report);
}

void ConvertSourceRanges(const v1::ServiceSpec& spec, proxy::Service& service, Report& report) {
  constexpr char kField[] = "spec.loadBalancerSourceRanges";
  bool given[2] = {};  // Whether a range of a family exists, indexed by Index(Family).
  // Whether a range contains all addresses of a family, indexed by Index(Family).
  bool everybody[2] = {};
  for (int i = 0; i < spec.load_balancer_source_ranges_size(); ++i) {
    const std::string& text = spec.load_balancer_source_ranges(i);
    const std::string field = absl::StrCat(kField, "[", i, "]");
    const auto range = IpPrefix::Parse(Trim(text));
    if (!range) {
      report.Warn(field, Ignored(Invalid(Quote(text), CidrDetail(text))));
      continue;
    }
    WarnIfAmbiguous(field, Trim(text), *range, report);
    given[Index(range->family())] = true;
    everybody[Index(range->family())] |= range->length() == 0;
    service.source_ranges.push_back(*range);
  }
  std::erase_if(service.source_ranges,
                [&](const IpPrefix& range) { return everybody[Index(range.family())]; });
  if (spec.load_balancer_source_ranges_size() == 0) return;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    // Requirement S-3: a family without a cluster IP is not programmed.
    if (given[Index(family)] || !service.cluster_ip[Index(family)]) continue;
    const bool has_addresses =
        std::any_of(service.load_balancer_ips.begin(), service.load_balancer_ips.end(),
                    [family](const IpAddress& address) { return address.family() == family; });
    if (!has_addresses) continue;
    const std::string name(FamilyName(family));
    report.Warn(kField, {proxy::FindingCode::kInvalid, "",
                         absl::StrCat("contains no valid ", name, " CIDR; the ", name,
                                      " load balancer IPs accept traffic from all sources")});
  }
}

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
