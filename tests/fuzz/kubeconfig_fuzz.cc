// Fuzzes ParseKubeconfig with arbitrary text. An accepted configuration must be usable for a
// connection, and error messages must be short and printable.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/kube/http/api_server.h"
#include "api/log/printable.h"

namespace svcmap::kube {
namespace {

void RequireThis(bool holds) {
  if (!holds) __builtin_trap();
}

void CheckRejection(std::string_view message) {
  RequireThis(!message.empty() && message.size() < 2000);
  while (!message.empty()) {
    const size_t length = api::Utf8Length(message);
    RequireThis(length > 0 && static_cast<uint8_t>(message[0]) >= 0x20);
    message.remove_prefix(length);
  }
}

void CheckServer(const ApiServer& server) {
  const auto url = ParseServerUrl(server.url.ToString());
  RequireThis(url.ok() && url->ToString() == server.url.ToString());
  RequireThis(server.proxy.url.empty() || ParseProxyUrl(server.proxy.url).ok());
  RequireThis(server.token.empty() || server.token_file.empty());
  for (const char c : server.token) RequireThis(c > 0x20 && c < 0x7f);
}

}  // namespace
}  // namespace svcmap::kube

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace svcmap::kube;
  if (size > 1 << 18) return 0;
  const auto server = ParseKubeconfig({reinterpret_cast<const char*>(data), size}, "/etc/kube");
  if (server.ok()) {
    CheckServer(*server);
  } else {
    CheckRejection({server.status().message().data(), server.status().message().size()});
  }
  return 0;
}
