#include "proxy/names/kube_names.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"

namespace svcmap::proxy {
namespace {

// Encodes the first 10 bytes of the SHA-256 hash in base32, which gives exactly 16 characters.
std::string Hash(const std::string& text) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest = {};
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data());
  std::string hash;
  uint32_t bits = 0;
  int held = 0;
  for (size_t i = 0; i < 10; ++i) {
    bits = bits << 8 | digest[i];
    for (held += 8; held >= 5; held -= 5) hash += kAlphabet[bits >> (held - 5) & 31];
  }
  return hash;
}

std::string LowerName(Protocol protocol) {
  const std::string_view name = ProtocolName(protocol);
  return absl::AsciiStrToLower({name.data(), name.size()});
}

std::string PortText(const std::string& service_key, const std::string& port_name,
                     Protocol protocol) {
  return service_key + (port_name.empty() ? "" : ":" + port_name) + LowerName(protocol);
}

std::string PortPath(const std::string& service_key, const std::string& port_name,
                     Protocol protocol) {
  return service_key + "/" + LowerName(protocol) + "/" + port_name;
}

std::string HashedAndCut(const std::string& path) {
  constexpr size_t kLongest = 240;
  std::string name = Hash(path).substr(0, 8) + "-" + path;
  if (name.size() > kLongest) name = name.substr(0, kLongest - 3) + "...";
  return name;
}

}  // namespace

std::string EndpointText(const EndpointAddress& endpoint) {
  const std::string ip = endpoint.ip.ToString();
  return (endpoint.ip.family() == Family::kIpv4 ? ip : "[" + ip + "]") + ":" +
         std::to_string(endpoint.port);
}

std::string KubeServiceHash(const std::string& service_key, const std::string& port_name,
                            Protocol protocol) {
  return Hash(PortText(service_key, port_name, protocol));
}

std::string KubeEndpointHash(const std::string& service_key, const std::string& port_name,
                             Protocol protocol, const EndpointAddress& endpoint) {
  return Hash(PortText(service_key, port_name, protocol) + EndpointText(endpoint));
}

std::string KubeChainName(const std::string& service_key, const std::string& port_name,
                          Protocol protocol) {
  return HashedAndCut(PortPath(service_key, port_name, protocol));
}

std::string KubeEndpointChainName(const std::string& service_key, const std::string& port_name,
                                  Protocol protocol, const EndpointAddress& endpoint) {
  std::string ip = endpoint.ip.ToString();
  std::replace(ip.begin(), ip.end(), ':', '.');
  return HashedAndCut(PortPath(service_key, port_name, protocol) + "__" + ip + "/" +
                      std::to_string(endpoint.port));
}

}  // namespace svcmap::proxy
