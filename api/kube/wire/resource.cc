#include "api/kube/wire/resource.h"

#include "absl/strings/str_cat.h"

namespace svcmap::kube {
namespace {

// Unreserved characters of RFC 3986.
bool IsPlainInQuery(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::string ProxyNameSelector(const std::string& name) {
  constexpr char kLabel[] = "service.kubernetes.io/service-proxy-name";
  return name.empty() ? absl::StrCat("!", kLabel) : absl::StrCat(kLabel, "=", name);
}

}  // namespace

std::string NameWithGroup(Resource resource) {
  const std::string_view group = KindOf(resource).group;
  return absl::StrCat(std::string(ResourceName(resource)), group.empty() ? "" : ".",
                      std::string(group));
}

std::string CollectionPath(Resource resource, const Selection& selection) {
  const api::KindInfo& kind = KindOf(resource);
  const bool beta = resource == Resource::kServiceCidrs && selection.beta_service_cidrs;
  const std::string version(beta ? kServiceCidrBetaVersion : kind.api_version);
  const std::string path = absl::StrCat(kind.group.empty() ? "/api/" : "/apis/", version, "/",
                                        std::string(ResourceName(resource)), "?");
  switch (resource) {
    case Resource::kServices:
      return absl::StrCat(
          path, "labelSelector=", PercentEncoded(ProxyNameSelector(selection.service_proxy_name)),
          selection.headless_services
              ? ""
              : absl::StrCat("&fieldSelector=", PercentEncoded("spec.clusterIP!=None")));
    case Resource::kEndpointSlices:
      return absl::StrCat(path,
                          "labelSelector=", PercentEncoded("!service.kubernetes.io/headless"));
    case Resource::kNode:
      return absl::StrCat(path,
                          "fieldSelector=", PercentEncoded("metadata.name=" + selection.node_name));
    case Resource::kServiceCidrs:
      break;
  }
  return path + "labelSelector=";  // An empty selector selects all objects.
}

std::string PercentEncoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (IsPlainInQuery(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

}  // namespace svcmap::kube
