#include "proxy/node/nodeport_addresses.h"

#include <algorithm>
#include <iterator>

namespace svcmap::proxy {
namespace {

bool InPrefixes(const std::vector<IpPrefix>& prefixes, const IpAddress& address) {
  bool listed = false;
  for (const IpPrefix& prefix : prefixes) {
    if (prefix.family() != address.family()) continue;
    if (prefix.Contains(address)) return true;
    listed = true;
  }
  return !listed;  // If no prefix of the family is listed, all addresses match (S-110).
}

}  // namespace

const IpAddress* PrimaryAddress(const Node* node, Family family) {
  if (node == nullptr) return nullptr;
  const auto found =
      std::find_if(node->addresses.begin(), node->addresses.end(),
                   [&](const IpAddress& address) { return address.family() == family; });
  return found == node->addresses.end() || found->IsLoopback() ? nullptr : &*found;
}

namespace {

// Returns true if every address of the family accepts nodePort traffic (S-110).
bool AcceptsAll(const NodePortAddresses& wanted, const Node* node, Family family) {
  if (wanted.mode == NodePortAddresses::Mode::kPrimary) {
    return PrimaryAddress(node, family) == nullptr;
  }
  const auto of_family = [family](const IpPrefix& prefix) { return prefix.family() == family; };
  return std::none_of(wanted.prefixes.begin(), wanted.prefixes.end(), of_family) ||
         std::any_of(wanted.prefixes.begin(), wanted.prefixes.end(), [&](const IpPrefix& prefix) {
           return of_family(prefix) && prefix.length() == 0;
         });
}

}  // namespace

absl::StatusOr<NodePortAddresses> NodePortAddresses::Parse(std::string_view text) {
  NodePortAddresses result;
  if (text == "primary" || text.empty()) return result;
  result.mode = Mode::kPrefixes;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string item(text.substr(0, comma));
    const std::optional<IpPrefix> prefix = IpPrefix::Parse(item);
    if (!prefix) {
      return absl::InvalidArgumentError(
          "Invalid value: \"" + item +
          "\": must be \"primary\" or a comma-separated list of CIDRs, such as "
          "\"192.0.2.0/24,2001:db8::/64\"");
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

std::vector<IpAddress> HealthCheckAddresses(const NodePortAddresses& wanted, const Node* node,
                                            const std::vector<IpAddress>& interfaces) {
  const std::vector<IpAddress> accepted = AcceptedNodePortAddresses(wanted, node, interfaces);
  std::vector<IpAddress> addresses;
  for (const Family family : kFamilies) {
    if (AcceptsAll(wanted, node, family)) {
      addresses.push_back(*IpAddress::Parse(family == Family::kIpv4 ? "0.0.0.0" : "::"));
      continue;
    }
    std::copy_if(accepted.begin(), accepted.end(), std::back_inserter(addresses),
                 [family](const IpAddress& address) {
                   const bool scoped = family == Family::kIpv6 && address.IsLinkLocal();
                   return address.family() == family && !scoped;
                 });
  }
  return addresses;
}

}  // namespace svcmap::proxy
