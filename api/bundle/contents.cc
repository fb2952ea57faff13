#include "api/bundle/contents.h"

#include <nlohmann/json.hpp>

#include "api/manifests/json_text.h"
#include "google/protobuf/util/json_util.h"

namespace svcmap::api {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string ToJsonLine(const google::protobuf::Message& message) {
  std::string json;
  // Fails only for Timestamps and Durations outside their range.
  if (!google::protobuf::util::MessageToJsonString(message, &json).ok()) json = "{}";
  return json + "\n";
}

absl::Status FromJson(std::string_view json, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // Fields of newer versions.
  const auto status =
      google::protobuf::util::JsonStringToMessage(std::string(json), &message, options);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(status.message()));
}

std::string BundleInfoJson(const BundleInfo& info) {
  Json json = {{"created", info.created},
               {"version", info.version},
               {"hashedNames", info.hashed_names},
               {"missing", Json::array()}};
  for (const MissingPart& part : info.missing) {
    json["missing"].push_back({{"file", part.file}, {"reason", part.reason}});
  }
  return JsonText(json);
}

std::string ReasonFor(std::string_view bundle_info_json, std::string_view file) {
  try {
    const Json json = Json::parse(bundle_info_json);
    for (const Json& part : json.at("missing")) {
      if (part.at("file") == file) return part.at("reason");
    }
  } catch (const Json::exception&) {  // Not written by svcmapctl.
  }
  return "";
}

}  // namespace svcmap::api
