#include "api/migration/node_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {
namespace {

using Json = nlohmann::ordered_json;

Json JsonOf(const nft::ForeignChain& chain) {
  Json json = {{"family", chain.family}, {"table", chain.table}, {"name", chain.name}};
  if (chain.base) {
    json["type"] = chain.base->type;
    json["hook"] = chain.base->hook;
    json["priority"] = chain.base->priority;
    json["drops"] = chain.base->policy_drop;
  }
  return json;
}

nft::ForeignChain ChainOf(const Json& json) {
  nft::ForeignChain chain{json.at("family"), json.at("table"), json.at("name"), std::nullopt};
  if (json.contains("hook")) {
    chain.base = {json.at("type"), json.at("hook"), json.at("priority"), json.at("drops")};
  }
  return chain;
}

}  // namespace

std::string NodeReportJson(const NodeReport& report) {
  Json json = {{"fatal", report.fatal}, {"warnings", Json::array()}, {"chains", Json::array()}};
  for (const NodeReport::Warning& warning : report.warnings) {
    json["warnings"].push_back(
        {{"about", warning.about}, {"what", warning.what}, {"remedy", warning.remedy}});
  }
  for (const nft::ForeignChain& chain : report.chains) json["chains"].push_back(JsonOf(chain));
  return JsonText(json);
}

absl::StatusOr<NodeReport> ParseNodeReport(std::string_view json) {
  NodeReport report;
  try {
    const Json parsed = Json::parse(json);
    report.fatal = parsed.at("fatal");
    for (const Json& warning : parsed.at("warnings")) {
      report.warnings.push_back({warning.at("what"), warning.at("remedy"), warning.at("about")});
    }
    for (const Json& chain : parsed.at("chains")) report.chains.push_back(ChainOf(chain));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot parse the output of svcmapd --preflight: ", error.what()));
  }
  return report;
}

}  // namespace svcmap::api
