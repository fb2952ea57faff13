#include "api/kube/http/server_url.h"

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "nft/types/ip_address.h"

namespace svcmap::kube {
namespace {

constexpr char kWantedServer[] = "expected https://HOST:PORT";
constexpr char kWantedProxy[] = "expected http://, https:// or socks5:// with HOST:PORT";

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using UrlParts = std::unique_ptr<CURLU, FreeUrl>;

// Returns null if `url` is not a URL.
UrlParts SplitUrl(const std::string& url) {
  UrlParts parts(curl_url());
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return nullptr;
  return parts;
}

// Returns an empty string if the part is missing.
std::string PartOf(const UrlParts& parts, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(parts.get(), part, &text, flags) != CURLUE_OK) return "";
  std::string result = text;
  curl_free(text);
  return result;
}

bool IsThisMachine(const std::string& host) {
  if (host == "localhost") return true;
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  const auto address = IpAddress::Parse(bracketed ? host.substr(1, host.size() - 2) : host);
  return address && address->IsLoopback();
}

}  // namespace

absl::StatusOr<ServerUrl> ParseServerUrl(const std::string& url) {
  const bool secret = url.find('@') != std::string::npos;
  const auto reject = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid value: ", secret ? "(hidden)" : api::Quote(url), ": ", why));
  };
  const UrlParts parts = SplitUrl(url);
  if (parts == nullptr) return reject(absl::StrCat("must be a URL; ", kWantedServer));
  ServerUrl server = {.scheme = PartOf(parts, CURLUPART_SCHEME),
                      .host = PartOf(parts, CURLUPART_HOST),
                      .port = PartOf(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT),
                      .path = PartOf(parts, CURLUPART_PATH)};
  if (server.scheme != "https" && server.scheme != "http") {
    return reject(absl::StrCat("the scheme must be https or http; ", kWantedServer));
  }
  if (!PartOf(parts, CURLUPART_USER).empty() || !PartOf(parts, CURLUPART_PASSWORD).empty()) {
    return reject("must not contain a user name or password; use the fields username and password");
  }
  if (!PartOf(parts, CURLUPART_QUERY).empty() || !PartOf(parts, CURLUPART_FRAGMENT).empty()) {
    return reject(absl::StrCat("must not contain a query or fragment; ", kWantedServer));
  }
  if (server.scheme == "http" && !IsThisMachine(server.host)) {
    return reject(
        "must use https: http sends credentials unencrypted and is only allowed for 127.0.0.1, ::1 "
        "and localhost");
  }
  while (server.path.ends_with('/')) server.path.pop_back();
  return server;
}

absl::StatusOr<ProxyUrl> ParseProxyUrl(std::string url) {
  const UrlParts parts = SplitUrl(url);
  const std::string scheme = parts == nullptr ? "" : PartOf(parts, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https" && scheme != "socks5" && scheme != "socks5h") {
    return absl::InvalidArgumentError(absl::StrCat("must be the URL of a proxy; ", kWantedProxy));
  }
  const std::string port = PartOf(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  std::string name =
      absl::StrCat(scheme, "://", PartOf(parts, CURLUPART_HOST), port.empty() ? "" : ":", port);
  // With socks5h, the proxy resolves host names, as with kubectl.
  if (scheme == "socks5") url.insert(scheme.size(), "h");
  return ProxyUrl{.url = std::move(url), .name = std::move(name)};
}

std::string HostInUrl(const std::string& host) {
  return host.find(':') == std::string::npos ? host : absl::StrCat("[", host, "]");
}

}  // namespace svcmap::kube
