// Writes manifests. Fields are sorted by name, as in the output of kubectl.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "api/convert/kinds.h"
#include "api/manifests/json_text.h"
#include "api/manifests/manifests.h"
#include "google/protobuf/util/json_util.h"

namespace svcmap::api {
namespace {

// Returns `object` with apiVersion and kind, or an empty map if no field of `object` is set.
nlohmann::json ManifestTree(v1::Object object) {
  const KindInfo* kind = FindKindOfField(object.object_case());
  if (kind == nullptr) return nlohmann::json::object();
  std::string text;
  // Fails only for values that the protocol does not allow, such as a Timestamp out of range.
  if (!google::protobuf::util::MessageToJsonString(MutableMessage(*kind, object), &text).ok()) {
    text = "{}";
  }
  nlohmann::json tree = nlohmann::json::parse(text);
  tree["apiVersion"] = kind->api_version;
  tree["kind"] = kind->name;
  return tree;
}

}  // namespace

std::string ManifestJson(const std::vector<v1::Object>& objects) {
  if (objects.size() == 1) return JsonText(ManifestTree(objects[0]));
  nlohmann::json items = nlohmann::json::array();
  for (const v1::Object& object : objects) items.push_back(ManifestTree(object));
  return JsonText({{"apiVersion", "v1"}, {"items", std::move(items)}, {"kind", "List"}});
}

std::string ManifestYaml(const std::vector<v1::Object>& objects) {
  std::string out;
  for (const v1::Object& object : objects) {
    absl::StrAppend(&out, out.empty() ? "" : "---\n", YamlText(ManifestTree(object)));
  }
  return out;
}

}  // namespace svcmap::api
