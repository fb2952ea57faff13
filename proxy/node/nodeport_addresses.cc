#include "proxy/node/nodeport_addresses.h"

#include <algorithm>
#include <iterator>

namespace svcmap::proxy {
namespace {

// Adds the meaning of one item of the setting to `result`. Returns false if the item is invalid.
bool AddItem(std::string_view item, NodePortAddresses& result) {
  if (item == "primary") {
    result.primary = true;
  } else if (item == "localhost") {
    result.prefixes.push_back(*IpPrefix::Parse("127.0.0.0/8"));
    result.prefixes.push_back(*IpPrefix::Parse("::1/128"));
  } else if (item == "all") {
    for (const Family family : kFamilies) {
      result.prefixes.emplace_back(IpAddress::Unspecified(family), 0);
    }
  } else if (const std::optional<IpPrefix> prefix = IpPrefix::Parse(item)) {
    result.prefixes.push_back(*prefix);
  } else {
    return false;
  }
  return true;
}

// Returns true if every address of the family accepts nodePort traffic (S-110).
bool AcceptsAll(const NodePortAddresses& wanted, const Node* node, Family family) {
  bool listed = wanted.primary && PrimaryAddress(node, family) != nullptr;
  for (const IpPrefix& prefix : wanted.prefixes) {
    if (prefix.family() != family) continue;
    if (prefix.length() == 0) return true;
    listed = true;
  }
  return !listed;
}

}  // namespace

const IpAddress* PrimaryAddress(const Node* node, Family family) {
  if (node == nullptr) return nullptr;
  const auto found = std::ranges::find(node->addresses, family, &IpAddress::family);
  return found == node->addresses.end() || found->IsLoopback() ? nullptr : &*found;
}

bool IsNodePortAddress(std::string_view item) {
  NodePortAddresses ignored;
  return AddItem(item, ignored);
}

IpAddress LocalhostAddress(Family family) {
  return *IpAddress::Parse(family == Family::kIpv4 ? "127.0.0.1" : "::1");
}

std::vector<IpAddress> ListedLoopbackAddresses(const NodePortAddresses& wanted) {
  std::vector<IpAddress> listed;
  for (const Family family : kFamilies) {
    const IpAddress address = LocalhostAddress(family);
    const auto lists = [&](const IpPrefix& prefix) {
      return prefix.Contains(address) && prefix.address().IsLoopback() &&
             prefix.Last().IsLoopback();
    };
    if (std::ranges::any_of(wanted.prefixes, lists)) listed.push_back(address);
  }
  return listed;
}

absl::StatusOr<NodePortAddresses> NodePortAddresses::Parse(std::string_view text) {
  NodePortAddresses result;
  if (text.empty()) return result;
  result.primary = false;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string item(text.substr(0, comma));
    if (!AddItem(item, result)) {
      return absl::InvalidArgumentError("Invalid value: \"" + item +
                                        "\": " + kNodePortAddressDetail);
    }
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return result;
}

std::vector<IpAddress> AcceptedNodePortAddresses(const NodePortAddresses& wanted, const Node* node,
                                                 const std::vector<IpAddress>& interfaces) {
  std::vector<IpAddress> accepted;
  for (const Family family : kFamilies) {
    const bool all = AcceptsAll(wanted, node, family);
    const IpAddress* primary = wanted.primary ? PrimaryAddress(node, family) : nullptr;
    for (const IpAddress& address : interfaces) {
      if (address.family() != family || address.IsLoopback()) continue;
      const bool is_primary = primary != nullptr && address == *primary;
      const bool listed = std::ranges::any_of(
          wanted.prefixes, [&](const IpPrefix& prefix) { return prefix.Contains(address); });
      if (all || is_primary || listed) accepted.push_back(address);
    }
  }
  std::sort(accepted.begin(), accepted.end());
  accepted.erase(std::unique(accepted.begin(), accepted.end()), accepted.end());
  return accepted;
}

std::vector<IpAddress> HealthCheckAddresses(const NodePortAddresses& wanted, const Node* node,
                                            const std::vector<IpAddress>& interfaces) {
  const std::vector<IpAddress> accepted = AcceptedNodePortAddresses(wanted, node, interfaces);
  std::vector<IpAddress> addresses;
  for (const Family family : kFamilies) {
    if (AcceptsAll(wanted, node, family)) {
      addresses.push_back(IpAddress::Unspecified(family));
      continue;
    }
    std::ranges::copy_if(accepted, std::back_inserter(addresses), [family](const IpAddress& at) {
      const bool scoped = family == Family::kIpv6 && at.IsLinkLocal();
      return at.family() == family && !scoped;
    });
  }
  return addresses;
}

std::optional<IpAddress> PingTarget(const Node* node, const std::vector<IpAddress>& interfaces,
                                    Family family) {
  const IpAddress* own = PrimaryAddress(node, family);
  if (own != nullptr && std::find(interfaces.begin(), interfaces.end(), *own) != interfaces.end()) {
    return *own;
  }
  std::optional<IpAddress> lowest;
  for (const IpAddress& address : interfaces) {
    if (address.family() != family || address.IsLoopback() || address.IsLinkLocal()) continue;
    if (!lowest || address < *lowest) lowest = address;
  }
  return lowest;
}

}  // namespace svcmap::proxy
