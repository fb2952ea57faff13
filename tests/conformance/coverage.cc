#include "tests/conformance/coverage.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace svcmap::conformance {

TestsByRequirement TestsOf(const TestList& tests, const std::map<int, std::string_view>& other) {
  TestsByRequirement all = tests.by_requirement;
  for (const auto& [number, names] : other) {
    for (const auto& name : absl::StrSplit(std::string(names), ' ', absl::SkipEmpty())) {
      all[number].insert(std::string(name));
    }
  }
  return all;
}

std::vector<std::string> Uncovered(const std::vector<Section>& specification,
                                   const TestsByRequirement& by_requirement, const TestList& tests,
                                   const Results& results,
                                   const std::set<std::string>& without_results) {
  std::vector<std::string> problems;
  const auto add = [&](const Requirement& requirement, const std::string& problem) {
    problems.push_back(
        absl::StrCat("S-", requirement.number, " ", requirement.title, ": ", problem));
  };
  for (const Section& section : specification) {
    for (const Requirement& requirement : section.requirements) {
      const auto found = by_requirement.find(requirement.number);
      const std::set<std::string> names =
          found == by_requirement.end() ? std::set<std::string>{} : found->second;
      const bool tested = !names.empty();
      if (!tested && !requirement.not_tested) add(requirement, "no test");
      if (tested && requirement.not_tested) {
        add(requirement, absl::StrCat("\"Not tested\", but there is ", *names.begin()));
      }
      for (const std::string& name : names) {
        const auto programs = tests.programs.find(name);
        if (programs == tests.programs.end()) {
          add(requirement, absl::StrCat("there is no test ", name));
          continue;
        }
        for (const std::string& program : programs->second) {
          if (without_results.contains(program)) continue;
          const std::string reason = results.WhyNotCounted(program, name);
          if (!reason.empty()) add(requirement, absl::StrCat(program, ": ", reason));
        }
      }
    }
  }
  return problems;
}

}  // namespace svcmap::conformance
