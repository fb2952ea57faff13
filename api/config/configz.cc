#include "api/config/configz.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_replace.h"
#include "api/config/fields.h"
#include "api/config/go_duration.h"

namespace svcmap::api {

namespace {

using Json = nlohmann::json;

template <typename Value>
void Put(Json& field, const Value& value) {
  field = value;
}
void Put(Json& field, const KubeProxyConfiguration::Duration& value) {
  field = FormatGoDuration(value);
}
void Put(Json& field, const AnyScalar& value) { field = value.text; }
void Put(Json& field, const Unread&) { field = nullptr; }

}  // namespace

std::string ConfigzText(const KubeProxyConfiguration& config) {
  Json body;
  VisitConfigurationFields(config, [&](const char* path, const auto& member, Use) {
    Put(body[Json::json_pointer("/" + absl::StrReplaceAll(path, {{".", "/"}}))], member);
  });
  return Json{{"kubeproxy.config.k8s.io", std::move(body)}}.dump();
}

}  // namespace svcmap::api
