#include "tests/conformance/specification.h"

#include <regex>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace svcmap::conformance {
namespace {

absl::StatusOr<Requirement> ParseParagraph(const std::string& paragraph) {
  static const std::regex form(
      "<a id=\"s-([0-9]+)\"></a>\\*\\*S-([0-9]+) ([^*]+)\\.\\*\\* \\S[^]*");
  std::smatch match;
  if (!std::regex_match(paragraph, match, form) || match[1] != match[2]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected '<a id=\"s-N\"></a>**S-N Title.** text', found: ", paragraph.substr(0, 80)));
  }
  return Requirement{.number = std::stoi(match[1]),
                     .title = match[3],
                     .differs = paragraph.find("**Differs:**") != std::string::npos,
                     .not_tested = paragraph.find("**Not tested:**") != std::string::npos};
}

}  // namespace

absl::StatusOr<std::vector<Section>> ParseSpecification(std::string_view markdown) {
  std::vector<Section> sections;
  // Add an empty line, which ends the last paragraph.
  std::istringstream lines(std::string(markdown) + "\n\n");
  std::string paragraph;
  int last = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) {
      if (line.starts_with("## ")) sections.push_back({.title = line.substr(3)});
      absl::StrAppend(&paragraph, paragraph.empty() ? "" : " ", line);
      continue;
    }
    if (paragraph.find("<a id=\"s-") != std::string::npos) {
      absl::StatusOr<Requirement> requirement = ParseParagraph(paragraph);
      if (!requirement.ok()) return requirement.status();
      if (sections.empty() || requirement->number != last + 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("S-", requirement->number, " follows S-", last,
                         sections.empty() ? " outside of a section" : ""));
      }
      last = requirement->number;
      sections.back().requirements.push_back(*std::move(requirement));
    }
    paragraph.clear();
  }
  std::erase_if(sections, [](const Section& section) { return section.requirements.empty(); });
  return sections;
}

}  // namespace svcmap::conformance
