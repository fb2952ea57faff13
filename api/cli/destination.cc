#include "api/cli/destination.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/quote.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

absl::Status Bad(std::string_view text, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat("Invalid value: ", Quote(text), ": ", problem));
}

// Parses an IPv6 address in brackets, or an IPv4 address without brackets.
std::optional<IpAddress> ParseHost(std::string_view host) {
  const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::optional<IpAddress> address = IpAddress::Parse(host);
  if (address && bracketed != (address->family() == Family::kIpv6)) return std::nullopt;
  return address;
}

}  // namespace

absl::StatusOr<Destination> ParseDestination(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view end_point = text.substr(0, slash);
  std::string name = slash == std::string_view::npos ? "TCP" : std::string(text.substr(slash + 1));
  absl::AsciiStrToUpper(&name);
  const std::optional<proxy::Protocol> protocol = ParseProtocol(name);
  if (name.empty() || !protocol) {
    return Bad(text, absl::StrCat("protocol ", Quote(name), " must be TCP, UDP or SCTP"));
  }
  const size_t colon = end_point.rfind(':');
  const std::optional<IpAddress> address = ParseHost(end_point.substr(0, colon));
  if (colon == std::string_view::npos || !address) {
    return Bad(text,
               "must be ADDRESS:PORT or ADDRESS:PORT/PROTOCOL, with IPv6 addresses in "
               "brackets, or NAMESPACE/NAME or NAMESPACE/NAME:PORT of a Service");
  }
  const std::string port(end_point.substr(colon + 1));
  int number = 0;
  const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &number) || number < 1 || number > 65535) {
    return Bad(text, absl::StrCat("port ", Quote(port), " must be between 1 and 65535, inclusive"));
  }
  return Destination{address->ToString(), static_cast<uint16_t>(number), std::move(name)};
}

std::optional<ServicePortName> ParseServicePort(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == 0 || slash == text.npos || text.find('/', slash + 1) != text.npos) {
    return std::nullopt;
  }
  const std::string_view name_space = text.substr(0, slash);
  // "10.96.0.10:53/UDP", or "10.96.0.10/UDP" without the port. Names of namespaces have no dots.
  if (name_space.find_first_of(".:[]") != name_space.npos) return std::nullopt;
  std::string_view name = text.substr(slash + 1);
  const size_t colon = name.find(':');
  const std::string_view port = colon == name.npos ? "" : name.substr(colon + 1);
  name = name.substr(0, colon);
  if (name.empty() || (colon != text.npos && port.empty() && text.ends_with(':'))) {
    return std::nullopt;
  }
  return ServicePortName{std::string(name_space), std::string(name), std::string(port)};
}

std::string AddressAndPort(const std::string& address, uint32_t port) {
  const bool ipv6 = address.find(':') != std::string::npos;
  return absl::StrCat(ipv6 ? "[" : "", address, ipv6 ? "]:" : ":", port);
}

}  // namespace svcmap::api
