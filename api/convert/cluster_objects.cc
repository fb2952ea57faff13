// Converts Node and ServiceCIDR.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

constexpr char kZoneLabel[] = "topology.kubernetes.io/zone";
constexpr char kToBeDeletedTaint[] = "ToBeDeletedByClusterAutoscaler";

void AppendAddresses(const v1::NodeStatus& status, std::string_view type, proxy::Node& node,
                     Report& report) {
  for (int i = 0; i < status.addresses_size(); ++i) {
    const v1::NodeAddress& entry = status.addresses(i);
    if (entry.type() != type) continue;
    if (const auto address = IpAddress::Parse(entry.address())) {
      node.addresses.push_back(*address);
    } else {
      report.Warn(absl::StrCat("status.addresses[", i, "].address"),
                  Ignored(Invalid(Quote(entry.address()), IpAddressDetail(entry.address()))));
    }
  }
}

// Uses the first pod CIDR of each IP family (requirement S-65).
void ConvertPodCidrs(const v1::NodeSpec& spec, proxy::Node& node, Report& report) {
  for (int i = 0; i < spec.pod_cidrs_size(); ++i) {
    const std::string& text = spec.pod_cidrs(i);
    const std::string field = absl::StrCat("spec.podCIDRs[", i, "]");
    const auto cidr = IpPrefix::Parse(text);
    if (!cidr) {
      report.Reject(field, Invalid(Quote(text), CidrDetail(text)));
      return;
    }
    WarnIfAmbiguous(field, text, *cidr, report);
    auto& slot = node.pod_cidr[Index(cidr->family())];
    if (!slot) slot = *cidr;
  }
}

// Returns whether load balancers may send traffic to the node (requirement S-253). Compares only
// the keys of taints.
bool Eligible(const v1::Node& node) {
  const auto& taints = node.spec().taints();
  return !node.metadata().has_deletion_timestamp() &&
         std::none_of(taints.begin(), taints.end(),
                      [](const v1::Taint& taint) { return taint.key() == kToBeDeletedTaint; });
}

}  // namespace

Converted<proxy::Node> ConvertNode(const v1::Node& message, std::string encoded,
                                   const ConvertContext&) {
  Report report = ReportFor(proxy::Kind::kNode, message.metadata());
  auto node = std::make_shared<proxy::Node>();
  node->name = report.key();
  // Requirement S-109: internal addresses precede external addresses.
  AppendAddresses(message.status(), "InternalIP", *node, report);
  AppendAddresses(message.status(), "ExternalIP", *node, report);
  const auto zone = message.metadata().labels().find(kZoneLabel);
  // Requirement S-29: the zone is a label of the Node.
  if (zone != message.metadata().labels().end()) node->zone = zone->second;
  ConvertPodCidrs(message.spec(), *node, report);
  node->eligible = Eligible(message);
  node->message = std::move(encoded);
  return Finish(std::move(node), report);
}

Converted<proxy::ServiceCidr> ConvertServiceCidr(const v1::ServiceCIDR& message,
                                                 std::string encoded, const ConvertContext&) {
  Report report = ReportFor(proxy::Kind::kServiceCidr, message.metadata());
  auto result = std::make_shared<proxy::ServiceCidr>();
  result->name = report.key();
  const int count = message.spec().cidrs_size();
  if (count == 0) report.Reject("spec.cidrs", Required(""));
  if (count > 2) report.Reject("spec.cidrs", TooMany(count, 2, "use one for each IP family"));
  for (int i = 0; i < count && !report.rejected(); ++i) {
    const std::string& text = message.spec().cidrs(i);
    const std::string field = absl::StrCat("spec.cidrs[", i, "]");
    const auto cidr = IpPrefix::Parse(text);
    if (!cidr) {
      report.Reject(field, Invalid(Quote(text), CidrDetail(text)));
    } else if (IpAddress::Parse(std::string_view(text).substr(0, text.find('/'))) !=
               cidr->address()) {
      report.Reject(field, Invalid(Quote(text), absl::StrCat("must not have host bits set; use ",
                                                             cidr->ToString())));
    } else if (cidr->length() == 0) {
      // The node drops packets to unused addresses of a ServiceCIDR (requirement S-83). A
      // ServiceCIDR with all addresses would make the node drop all packets to addresses without a
      // Service.
      report.Reject(field, Invalid(Quote(text), "must not contain all addresses"));
    } else if (i == 1 && cidr->family() == result->cidrs[0].family()) {
      const Family other = cidr->family() == Family::kIpv4 ? Family::kIpv6 : Family::kIpv4;
      report.Reject(field, Invalid(Quote(text),
                                   absl::StrCat("must be an ", std::string(FamilyName(other)),
                                                " CIDR because spec.cidrs[0] is an ",
                                                std::string(FamilyName(cidr->family())), " CIDR")));
    } else {
      result->cidrs.push_back(*cidr);
    }
  }
  result->message = std::move(encoded);
  return Finish(std::move(result), report);
}

}  // namespace svcmap::api
