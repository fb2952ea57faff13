#include "proxy/explain/kernel_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nft/text/nft_text.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

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

KernelCheck::KernelCheck(const nft::TableSpecs& tables, nft::Transaction desired,
                         std::vector<Row> deciding)
    : tables_(tables), desired_(std::move(desired)), deciding_(std::move(deciding)) {
  std::vector<bool> is_desired(deciding_.size(), false);
  desired_.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (SetOf(element).interval) return;
    for (size_t i = 0; i < deciding_.size(); ++i) {
      const nft::ElementView row = deciding_[i].view();
      if (row.set == element.set && std::ranges::equal(row.key, element.key)) is_desired[i] = true;
    }
    items_.push_back({element, true});
  });
  for (size_t i = 0; i < deciding_.size(); ++i) {
    if (!is_desired[i]) items_.push_back({deciding_[i].view(), false});
  }
}

const nft::SetSpec& KernelCheck::SetOf(const nft::ElementView& element) const {
  return tables_[Index(element.set.family)].sets[element.set.set];
}

bool KernelCheck::Read(nft::Kernel& kernel, std::chrono::steady_clock::duration limit) {
  const auto start = std::chrono::steady_clock::now();
  while (next_ < items_.size() && status_.ok()) {
    const Item& item = items_[next_++];
    const auto found = kernel.ReadElement(item.element.set, item.element.key);
    status_ = found.status();
    if (found.ok()) Compare(item, *found);
    if (std::chrono::steady_clock::now() - start >= limit) break;
  }
  return next_ == items_.size() || !status_.ok();
}

void KernelCheck::Compare(const Item& item, const std::optional<nft::Element>& found) {
  const nft::SetSpec& set = SetOf(item.element);
  std::string line = nft::ElementText(set, item.element);
  if (!item.is_desired) {
    if (!found) return;
    line += " is in the kernel but not in the desired state";
  } else if (!found) {
    line += " is missing in the kernel";
  } else if (!std::ranges::equal(found->data, item.element.data)) {
    absl::StrAppend(&line, " has value ", nft::FieldsToText(set.data, found->data), ", expected ",
                    nft::FieldsToText(set.data, item.element.data));
  } else {
    return;
  }
  lines_.push_back(std::move(line));
}

absl::StatusOr<std::vector<std::string>> KernelCheck::differences() const {
  if (!status_.ok()) return status_;
  return lines_;
}

}  // namespace svcmap::proxy
