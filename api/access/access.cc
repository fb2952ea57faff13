#include "api/access/access.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

// A name that contains a colon is a URI, because DNS names contain no colon.
bool Has(const CertificateNames& names, const std::string& wanted) {
  const std::optional<IpAddress> address = IpAddress::Parse(wanted);
  if (address) {
    return std::any_of(names.ips.begin(), names.ips.end(),
                       [&](const std::string& ip) { return IpAddress::Parse(ip) == address; });
  }
  return absl::c_linear_search(wanted.find(':') == std::string::npos ? names.dns : names.uris,
                               wanted);
}

bool HasOneOf(const CertificateNames& names, const std::vector<std::string>& wanted) {
  return std::ranges::any_of(wanted, [&](const std::string& name) { return Has(names, name); });
}

constexpr std::string_view kUnixListen = "unix://";
constexpr std::string_view kTcpListen = "tcp://";

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& listen) {
  if (listen.starts_with(kUnixListen) && listen.size() > kUnixListen.size() &&
      listen[kUnixListen.size()] == '/') {
    return ListenAddress{true, listen.substr(kUnixListen.size())};
  }
  if (listen.starts_with(kTcpListen) && listen.find(':', kTcpListen.size()) != std::string::npos) {
    const std::string port = listen.substr(listen.rfind(':') + 1);
    unsigned number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535) {
      return absl::InvalidArgumentError("--listen: Invalid value: \"" + listen +
                                        "\": port must be between 1 and 65535, inclusive");
    }
    return ListenAddress{false, listen.substr(kTcpListen.size())};
  }
  return absl::InvalidArgumentError("--listen: Invalid value: \"" + listen +
                                    "\": must be unix:///path or tcp://host:port");
}

absl::Status CheckTls(const ListenOptions& options, const std::string& tcp_listener) {
  std::string given;
  std::string missing;
  for (const auto& [flag, file] :
       {std::pair("--tls-cert", &options.tls.certificate), std::pair("--tls-key", &options.tls.key),
        std::pair("--tls-client-ca", &options.tls.ca)}) {
    std::string& list = file->empty() ? missing : given;
    if (!list.empty()) list += ", ";
    list += flag;
  }
  if (tcp_listener.empty()) {
    if (given.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(given + ": Forbidden: no --listen address uses tcp://");
  }
  if (options.insecure) {
    if (given.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(given + ": Forbidden: cannot be combined with --insecure");
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(missing + ": Required value: --listen " + tcp_listener +
                                    " needs TLS; use --insecure to allow read-only access without "
                                    "TLS");
}

}  // namespace

Role NeededRole(std::string_view method) {
  const bool writes =
      method == "Push" || method == "Apply" || method == "Remove" || method == "AcceptSnapshot";
  return writes ? Role::kWrite : Role::kRead;
}

Role RoleOf(const AllowList& allowed, const CertificateNames& names) {
  if (!allowed.has_names() || HasOneOf(names, allowed.write_names)) return Role::kWrite;
  return HasOneOf(names, allowed.read_names) ? Role::kRead : Role::kNone;
}

Role RoleOf(const AllowList& allowed, uid_t own, uid_t uid) {
  if (uid == 0 || uid == own || absl::c_linear_search(allowed.write_uids, uid)) return Role::kWrite;
  return absl::c_linear_search(allowed.read_uids, uid) ? Role::kRead : Role::kNone;
}

std::string DisplayName(const CertificateNames& names) {
  for (const std::vector<std::string>* list : {&names.uris, &names.dns, &names.ips}) {
    if (!list->empty()) return list->front();
  }
  return "without a subject alternative name";
}

std::string LimitKey(const CertificateNames& names) {
  const std::string type = !names.uris.empty()  ? "URI "
                           : !names.dns.empty() ? "DNS "
                           : !names.ips.empty() ? "IP "
                                                : "";
  return type + DisplayName(names);
}

std::string RejectionText(std::string_view what, const std::string& client, Role role) {
  std::string text = std::string(what) + " denied: client " + client;
  // Users on the node have no certificate.
  const std::string flags = client.starts_with("uid ") ? "-uid" : "";
  if (role == Role::kRead)
    return text + " may only read; see --allow-write" + flags + " of svcmapd";
  return text + " is not authorized to read or write; see --allow-write" + flags +
         " and --allow-read" + flags + " of svcmapd";
}

absl::StatusOr<std::vector<ListenAddress>> ParseListeners(const ListenOptions& options) {
  std::vector<ListenAddress> addresses;
  std::string tcp;
  bool is_unix = false;
  for (const std::string& listen : options.listen) {
    const absl::StatusOr<ListenAddress> address = ParseListenAddress(listen);
    if (!address.ok()) return address.status();
    if (address->is_unix) {
      is_unix = true;
    } else if (tcp.empty()) {
      tcp = listen;
    }
    addresses.push_back(*address);
  }
  if (const absl::Status tls = CheckTls(options, tcp); !tls.ok()) return tls;
  for (const auto& [flag, names] : {std::pair("--allow-write", &options.allow.write_names),
                                    std::pair("--allow-read", &options.allow.read_names)}) {
    if (names->empty()) continue;
    for (const std::string& name : *names) {
      if (name.empty()) {
        return absl::InvalidArgumentError(std::string(flag) +
                                          ": Required value: must be a name in a certificate");
      }
    }
    if (tcp.empty() || options.insecure) {
      return absl::InvalidArgumentError(std::string(flag) +
                                        ": Forbidden: no --listen address uses tcp:// with TLS");
    }
  }
  if (options.allow.has_uids() && !is_unix) {
    return absl::InvalidArgumentError(
        "--allow-write-uid, --allow-read-uid: Forbidden: no --listen address uses unix://");
  }
  return addresses;
}

}  // namespace svcmap::api
