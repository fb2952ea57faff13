// Node and ServiceCIDR: the objects without a namespace.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/convert/metadata.h"
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
      report.Warn(absl::StrCat("status.addresses[", i, "].address"), Quote(entry.address()),
                  "is not an IP address; it is skipped");
    }
  }
}

// S-65: of each family the first one counts.
void ConvertPodCidrs(const v1::NodeSpec& spec, proxy::Node& node, Report& report) {
  for (int i = 0; i < spec.pod_cidrs_size(); ++i) {
    const std::string& text = spec.pod_cidrs(i);
    const auto cidr = IpPrefix::Parse(text);
    if (!cidr) {
      report.Refuse(absl::StrCat("spec.podCIDRs[", i, "]"), Quote(text), "is not a CIDR");
      return;
    }
    auto& slot = node.pod_cidr[Index(cidr->family())];
    if (!slot) slot = *cidr;
  }
}

// S-253. Value and effect of the taint do not matter.
bool Eligible(const v1::Node& node) {
  const auto& taints = node.spec().taints();
  return !node.metadata().has_deletion_timestamp() &&
         std::none_of(taints.begin(), taints.end(),
                      [](const v1::Taint& taint) { return taint.key() == kToBeDeletedTaint; });
}

}  // namespace

Converted<proxy::Node> ConvertNode(const v1::Node& message, const ConvertContext&) {
  Report report = ReportFor(proxy::Kind::kNode, message.metadata());
  auto node = std::make_shared<proxy::Node>();
  node->name = report.key();
  AppendAddresses(message.status(), "InternalIP", *node, report);  // S-109
  AppendAddresses(message.status(), "ExternalIP", *node, report);
  const auto zone = message.metadata().labels().find(kZoneLabel);
  if (zone != message.metadata().labels().end()) node->zone = zone->second;  // S-29
  ConvertPodCidrs(message.spec(), *node, report);
  node->eligible = Eligible(message);
  if (!report.refused()) node->message = Serialize(message);
  return Finish(std::move(node), report);
}

Converted<proxy::ServiceCidr> ConvertServiceCidr(const v1::ServiceCIDR& message,
                                                 const ConvertContext&) {
  Report report = ReportFor(proxy::Kind::kServiceCidr, message.metadata());
  auto result = std::make_shared<proxy::ServiceCidr>();
  result->name = report.key();
  const int count = message.spec().cidrs_size();
  if (count == 0) report.Refuse("spec.cidrs", "", "is empty");
  if (count > 2) {
    report.Refuse("spec.cidrs", "",
                  absl::StrCat("has ", count, " entries, more than one per address family"));
  }
  for (int i = 0; i < count && !report.refused(); ++i) {
    const std::string& text = message.spec().cidrs(i);
    const std::string field = absl::StrCat("spec.cidrs[", i, "]");
    const auto cidr = IpPrefix::Parse(text);
    if (!cidr) {
      report.Refuse(field, Quote(text), "is not a CIDR");
    } else if (IpAddress::Parse(std::string_view(text).substr(0, text.find('/'))) !=
               cidr->address()) {
      report.Refuse(field, Quote(text),
                    absl::StrCat("has bits set after the prefix; write ", cidr->ToString()));
    } else if (cidr->length() == 0) {
      // Every packet that is not for a Service would be dropped (S-83).
      report.Refuse(field, Quote(text), "covers every address");
    } else if (i == 1 && cidr->family() == result->cidrs[0].family()) {
      report.Refuse(field, Quote(text),
                    absl::StrCat("is a second ", std::string(FamilyName(cidr->family())),
                                 " block; there is one per address family"));
    } else {
      result->cidrs.push_back(*cidr);
    }
  }
  if (!report.refused()) result->message = Serialize(message);
  return Finish(std::move(result), report);
}

}  // namespace svcmap::api
