#include "api/access/listeners.h"

#include <charconv>
#include <string_view>
#include <utility>

namespace svcmap::api {
namespace {

constexpr std::string_view kUnixListen = "unix://";
constexpr std::string_view kTcpListen = "tcp://";

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

absl::Status CheckListeners(const ListenOptions& options) {
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
  return absl::OkStatus();
}

}  // namespace svcmap::api
