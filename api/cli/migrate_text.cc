#include "api/cli/migrate_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "api/cli/text.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {

std::string FindingsText(const std::vector<Finding>& findings) {
  std::string page;
  size_t attention = 0;
  for (const Finding& finding : findings) {
    if (finding.attention) ++attention;
    absl::StrAppend(&page, finding.attention ? "ATTENTION  " : "NOTE       ", OneLine(finding.what),
                    "\n  effect   ", OneLine(finding.effect), "\n  remedy   ",
                    OneLine(finding.remedy), "\n\n");
  }
  const size_t notes = findings.size() - attention;
  absl::StrAppend(&page,
                  attention == 0   ? "No problems found"
                  : attention == 1 ? "1 finding needs attention"
                                   : absl::StrCat(attention, " findings need attention"),
                  notes == 0 ? "" : ", " + CountText(notes, "note"), ".\n");
  return page;
}

std::string FindingsJson(const std::vector<Finding>& findings) {
  using Json = nlohmann::ordered_json;
  const bool attention = std::any_of(findings.begin(), findings.end(),
                                     [](const Finding& finding) { return finding.attention; });
  Json json = {{"attention", attention}, {"findings", Json::array()}};
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"level", finding.attention ? "attention" : "note"},
                                {"what", finding.what},
                                {"effect", finding.effect},
                                {"remedy", finding.remedy}});
  }
  return JsonText(json);
}

}  // namespace svcmap::api
