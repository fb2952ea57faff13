// Reads the requirements of docs/specification.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::conformance {

// A paragraph that starts with <a id="s-94"></a>**S-94 Title.** and may contain "**Differs:**" or
// "**Not tested:**", each followed by an explanation.
struct Requirement {
  int number = 0;
  std::string title;
  bool differs = false;     // True if svcmap deliberately behaves differently from kube-proxy.
  bool not_tested = false;  // True if the paragraph explains why there is no test.
};

struct Section {
  std::string title;  // Title of a level 2 heading. Sections without requirements are omitted.
  std::vector<Requirement> requirements;
};

// Parses the specification. Returns InvalidArgument if the text of a requirement does not have the
// form that Requirement describes, or if the numbers do not ascend from 1 without gaps.
absl::StatusOr<std::vector<Section>> ParseSpecification(std::string_view markdown);

}  // namespace svcmap::conformance
