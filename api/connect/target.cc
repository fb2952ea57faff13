#include "api/connect/target.h"

#include <sys/un.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

constexpr std::string_view kUnix = "unix://";
constexpr std::string_view kTcp = "tcp://";
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Bad(std::string_view address, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat("Invalid value: ", Quote(address), ": ", problem));
}

absl::StatusOr<std::string> UnixTarget(std::string_view address) {
  const std::string_view path = address.substr(kUnix.size());
  if (!path.starts_with('/')) {
    return Bad(address, "the path must be absolute, as in unix:///path/to/socket");
  }
  if (path.size() > kMaxSocketPath) {
    return Bad(address, absl::StrCat("the path has ", path.size(), " bytes, the maximum is ",
                                     kMaxSocketPath));
  }
  return absl::StrCat("unix:", std::string(path));
}

bool IsHost(std::string_view host) {
  const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  return !host.empty() && std::all_of(host.begin(), host.end(), [bracketed](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' || (bracketed && c == ':') ||
           (bracketed && c == '%');
  });
}

absl::StatusOr<std::string> TcpTarget(std::string_view address) {
  const std::string_view rest = address.substr(kTcp.size());
  const size_t colon = rest.rfind(':');
  const std::string_view host = rest.substr(0, colon);
  if (colon == std::string_view::npos || !IsHost(host)) {
    return Bad(address, "must be tcp://HOST:PORT, with IPv6 addresses in brackets");
  }
  const std::string port(rest.substr(colon + 1));
  int number = 0;
  const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &number) || number < 1 || number > 65535) {
    return Bad(address,
               absl::StrCat("port ", Quote(port), " must be between 1 and 65535, inclusive"));
  }
  return absl::StrCat("dns:///", std::string(host), ":", number);
}

}  // namespace

absl::StatusOr<std::string> ParseTarget(std::string_view address) {
  if (address.starts_with(kUnix)) return UnixTarget(address);
  if (address.starts_with(kTcp)) return TcpTarget(address);
  return Bad(address, "must be unix:///PATH or tcp://HOST:PORT");
}

absl::Status CheckTlsFlags(const TlsFiles& tls, std::string_view address) {
  if ((tls.ca + tls.certificate + tls.key + tls.server_name).empty()) return absl::OkStatus();
  if (!address.starts_with(kTcp)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--tls-ca, --tls-cert, --tls-key and --tls-server-name require a tcp:// address, but the "
        "address is ",
        Quote(address)));
  }
  if (tls.ca.empty() && !tls.server_name.empty()) {
    return absl::InvalidArgumentError("--tls-server-name requires --tls-ca");
  }
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(tls.key.empty() ? "--tls-cert requires --tls-key"
                                                      : "--tls-key requires --tls-cert");
  }
  if (tls.ca.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key require --tls-ca");
  }
  return absl::OkStatus();
}

}  // namespace svcmap::api
