#include "api/kube/resource.h"

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

std::string_view ResourceName(Resource resource) {
  switch (resource) {
    case Resource::kServices:
      return "services";
    case Resource::kEndpointSlices:
      return "endpointslices";
    case Resource::kNode:
      return "nodes";
    case Resource::kServiceCidrs:
      return "servicecidrs";
  }
  return "";
}

std::string CollectionPath(Resource resource, const Selection& selection) {
  switch (resource) {
    case Resource::kServices: {
      std::string path =
          absl::StrCat("/api/v1/services?labelSelector=",
                       PercentEncoded(ProxyNameSelector(selection.service_proxy_name)));
      if (!selection.headless_services) {
        absl::StrAppend(&path, "&fieldSelector=", PercentEncoded("spec.clusterIP!=None"));
      }
      return path;
    }
    case Resource::kEndpointSlices:
      return absl::StrCat("/apis/discovery.k8s.io/v1/endpointslices?labelSelector=",
                          PercentEncoded("!service.kubernetes.io/headless"));
    case Resource::kNode:
      return absl::StrCat("/api/v1/nodes?fieldSelector=",
                          PercentEncoded("metadata.name=" + selection.node_name));
    case Resource::kServiceCidrs:
      // An empty selector selects all objects.
      return "/apis/networking.k8s.io/v1/servicecidrs?labelSelector=";
  }
  return "";
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
