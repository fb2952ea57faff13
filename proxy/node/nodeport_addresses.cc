#include "proxy/node/nodeport_addresses.h"

#include <algorithm>

namespace svcmap::proxy {
namespace {

bool InPrefixes(const std::vector<IpPrefix>& prefixes, const IpAddress& address) {
  bool listed = false;
  for (const IpPrefix& prefix : prefixes) {
    if (prefix.family() != address.family()) continue;
    if (prefix.Contains(address)) return true;
    listed = true;
  }
  return !listed;  // S-110
}

}  // namespace

const IpAddress* PrimaryAddress(const Node* node, Family family) {
  if (node == nullptr) return nullptr;
  const auto found =
      std::find_if(node->addresses.begin(), node->addresses.end(),
                   [&](const IpAddress& address) { return address.family() == family; });
  return found == node->addresses.end() || found->IsLoopback() ? nullptr : &*found;
}

absl::StatusOr<NodePortAddresses> NodePortAddresses::Parse(std::string_view text) {
  NodePortAddresses result;
  if (text == "primary" || text.empty()) return result;
  result.mode = Mode::kPrefixes;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string item(text.substr(0, comma));
    const std::optional<IpPrefix> prefix = IpPrefix::Parse(item);
    if (!prefix) {
      return absl::InvalidArgumentError("\"" + item +
                                        "\" is not an address block; wanted \"primary\" or a list "
                                        "like \"192.0.2.0/24,2001:db8::/64\"");
    }
    result.prefixes.push_back(*prefix);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return result;
}

std::vector<IpAddress> AcceptedNodePortAddresses(const NodePortAddresses& wanted, const Node* node,
                                                 const std::vector<IpAddress>& interfaces) {
  std::vector<IpAddress> accepted;
  for (const Family family : kFamilies) {
    if (wanted.mode == NodePortAddresses::Mode::kPrimary) {
      if (const IpAddress* primary = PrimaryAddress(node, family)) {
        accepted.push_back(*primary);
        continue;
      }
    }
    for (const IpAddress& address : interfaces) {
      if (address.family() != family || address.IsLoopback()) continue;
      if (InPrefixes(wanted.prefixes, address)) accepted.push_back(address);
    }
  }
  std::sort(accepted.begin(), accepted.end());
  accepted.erase(std::unique(accepted.begin(), accepted.end()), accepted.end());
  return accepted;
}

}  // namespace svcmap::proxy
