#include "proxy/explain/kernel_check.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "nft/text/nft_text.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {
namespace {

bool SameKey(const nft::ElementView& a, const nft::ElementView& b) {
  return a.set == b.set && std::ranges::equal(a.key, b.key);
}

std::string Difference(const nft::SetSpec& set, const nft::ElementView& wanted,
                       const std::optional<nft::Element>& found) {
  const std::string name = nft::ElementText(set, wanted);
  if (!found) return name + " is missing in the kernel";
  if (std::ranges::equal(found->data, wanted.data)) return "";
  return absl::StrCat(name, " has value ", nft::FieldsToText(set.data, found->data), ", expected ",
                      nft::FieldsToText(set.data, wanted.data));
}

}  // namespace

std::vector<Row> DecidingRows(const IpAddress& address, Protocol protocol, uint16_t port) {
  ServiceRows probe;
  probe.cluster_ips = {address};
  probe.ports = {{.family = address.family(),
                  .protocol = protocol,
                  .port = port,
                  .addresses = {{address, port}}}};
  std::vector<Row> rows = SharedRows(probe);
  for (Row row : OwnRows("", probe)) {
    for (const SetIndex set :
         {kServiceIps, kNoEndpointServices, kNoEndpointNodePorts, kFirewallIps}) {
      row.set.set = set;
      rows.push_back(row);
    }
  }
  return rows;
}

absl::StatusOr<std::vector<std::string>> KernelDifferences(nft::Kernel& kernel,
                                                           const nft::TableSpecs& tables,
                                                           const nft::Transaction& wanted,
                                                           const std::vector<Row>& deciding) {
  const auto set_of = [&](const nft::ElementView& element) -> const nft::SetSpec& {
    return tables[Index(element.set.family)].sets[element.set.set];
  };
  std::vector<std::string> differences;
  absl::Status status;
  std::vector<bool> named(deciding.size(), false);
  wanted.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (!status.ok() || set_of(element).interval) return;
    for (size_t i = 0; i < deciding.size(); ++i) {
      if (SameKey(deciding[i].view(), element)) named[i] = true;
    }
    const auto found = kernel.ReadElement(element.set, element.key);
    if (!found.ok()) {
      status = found.status();
      return;
    }
    std::string difference = Difference(set_of(element), element, *found);
    if (!difference.empty()) differences.push_back(std::move(difference));
  });
  for (size_t i = 0; i < deciding.size() && status.ok(); ++i) {
    if (named[i]) continue;
    const nft::ElementView element = deciding[i].view();
    const auto found = kernel.ReadElement(element.set, element.key);
    if (!found.ok()) return found.status();
    if (*found) {
      differences.push_back(nft::ElementText(set_of(element), element) +
                            " is in the kernel but not in the desired state");
    }
  }
  if (!status.ok()) return status;
  return differences;
}

}  // namespace svcmap::proxy
