#include "proxy/names/kube_names.h"

#include <openssl/sha.h>

#include <array>

#include "absl/strings/ascii.h"

namespace svcmap::proxy {
namespace {

std::string PortText(const std::string& service_key, const std::string& port_name,
                     Protocol protocol) {
  return service_key + (port_name.empty() ? "" : ":" + port_name) +
         absl::AsciiStrToLower(std::string(ProtocolName(protocol)));
}

}  // namespace

// Encodes the first 10 bytes of the SHA-256 hash in base32, which gives exactly 16 characters.
std::string KubeHash(const std::string& text) {
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

std::string KubeServiceHash(const std::string& service_key, const std::string& port_name,
                            Protocol protocol) {
  return KubeHash(PortText(service_key, port_name, protocol));
}

std::string KubeEndpointHash(const std::string& service_key, const std::string& port_name,
                             Protocol protocol, const EndpointAddress& endpoint) {
  return KubeHash(PortText(service_key, port_name, protocol) + endpoint.ip.WithPort(endpoint.port));
}

}  // namespace svcmap::proxy
