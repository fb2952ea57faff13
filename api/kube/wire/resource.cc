#include "api/kube/wire/resource.h"

#include <curl/curl.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace svcmap::kube {
namespace {

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
  if (text.empty()) return "";  // libcurl would determine the length with strlen.
  const std::unique_ptr<char, decltype(&curl_free)> encoded(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  return encoded.get();
}

}  // namespace svcmap::kube
