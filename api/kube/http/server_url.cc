#include "api/kube/http/server_url.h"

#include <curl/curl.h>

#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "nft/types/ip_address.h"

namespace svcmap::kube {
namespace {

constexpr char kWantedServer[] = "wanted https://HOST:PORT";
constexpr char kWantedProxy[] = "wanted http://, https:// or socks5:// with HOST:PORT";

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using UrlParts = std::unique_ptr<CURLU, FreeUrl>;

// Null if it is no URL.
UrlParts Split(const std::string& url) {
  UrlParts parts(curl_url());
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return nullptr;
  return parts;
}

// Empty if it is not there.
std::string Part(const UrlParts& parts, CURLUPart part, unsigned flags = 0) {
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
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat(secret ? "what stands there" : api::Quote(url), " ", why));
  };
  const UrlParts parts = Split(url);
  if (parts == nullptr) return refuse(absl::StrCat("is not a URL; ", kWantedServer));
  ServerUrl server = {.scheme = Part(parts, CURLUPART_SCHEME),
                      .host = Part(parts, CURLUPART_HOST),
                      .port = Part(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT),
                      .path = Part(parts, CURLUPART_PATH)};
  if (server.scheme != "https" && server.scheme != "http") {
    return refuse(absl::StrCat("has neither the scheme https nor http; ", kWantedServer));
  }
  if (!Part(parts, CURLUPART_USER).empty() || !Part(parts, CURLUPART_PASSWORD).empty()) {
    return refuse("has a user name or password; give them in the fields username and password");
  }
  if (!Part(parts, CURLUPART_QUERY).empty() || !Part(parts, CURLUPART_FRAGMENT).empty()) {
    return refuse(absl::StrCat("has a query or fragment; ", kWantedServer));
  }
  if (server.scheme == "http" && !IsThisMachine(server.host)) {
    return refuse(
        "would send credentials in the clear: http is for 127.0.0.1, ::1 and localhost; wanted "
        "https");
  }
  while (server.path.ends_with('/')) server.path.pop_back();
  return server;
}

absl::StatusOr<std::string> ParseProxyUrl(const std::string& url) {
  const UrlParts parts = Split(url);
  const std::string scheme = parts == nullptr ? "" : Part(parts, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https" && scheme != "socks5" && scheme != "socks5h") {
    return absl::InvalidArgumentError(absl::StrCat("is not the URL of a proxy; ", kWantedProxy));
  }
  const std::string port = Part(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  return absl::StrCat(scheme, "://", Part(parts, CURLUPART_HOST), port.empty() ? "" : ":", port);
}

}  // namespace svcmap::kube
