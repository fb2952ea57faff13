// Text form of flows and their addresses in tests, for example "10.0.0.1:53" or "[fd00::1]:53".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/conntrack/udp_flows.h"
#include "proxy/resolve/endpoints.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy::test {

inline nft::FlowEnd End(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view address = text.substr(0, colon);
  if (address.front() == '[') address = address.substr(1, address.size() - 2);
  return {Ip(address), static_cast<uint16_t>(std::stoi(std::string(text.substr(colon + 1))))};
}

inline std::string Text(const nft::FlowEnd& end) {
  const std::string address = end.address.ToString();
  const bool v4 = end.address.family() == Family::kIpv4;
  return (v4 ? address : "[" + address + "]") + ":" + std::to_string(end.port);
}

inline std::vector<EndpointAddress> Endpoints(const std::vector<std::string>& texts) {
  std::vector<EndpointAddress> endpoints;
  for (const std::string& text : texts) {
    const nft::FlowEnd end = End(text);
    endpoints.push_back({end.address, end.port});
  }
  return endpoints;
}

// Returns a flow from a fixed client to `destination`, with replies from `answers`.
inline nft::Flow Flow(std::string_view destination, std::string_view answers, uint16_t zone = 0) {
  const bool v4 = End(destination).address.family() == Family::kIpv4;
  const nft::FlowEnd client = End(v4 ? "10.9.0.9:40000" : "[fd09::9]:40000");
  return {.original = {client, End(destination), zone}, .reply = {End(answers), client, zone}};
}

}  // namespace svcmap::proxy::test
