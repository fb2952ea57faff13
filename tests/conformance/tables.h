// What docs/conformance.md is made of, besides the names of the tests: a title for each requirement
// of sections 1 to 6 of the behaviour specification, and the reasons where no test shows it.
#pragma once

#include <string_view>
#include <vector>

namespace svcmap::conformance {

// A test whose name carries the number shows the requirement: "S152_..." in the name of the test
// or of its parameter.
struct Requirement {
  int number;
  std::string_view title;
  std::string_view differs = "";   // Why svcmap deliberately does it differently, or not at all.
  std::string_view later = "";     // What brings it; not together with tests.
  std::string_view shown_by = "";  // Tests with other names, separated by blanks.
};

struct Section {
  std::string_view title;
  std::vector<Requirement> requirements;
};

// In ascending order, without gaps.
std::vector<Section> Sections();

// A [sig-network] end-to-end test of Kubernetes (or some, told apart by a word).
struct UpstreamTest {
  std::string_view area;
  std::string_view what;
  std::string_view ours;           // Our tests of the same, separated by blanks; or
  std::string_view why_none = "";  // what of a cluster it needs, or when it comes.
};

std::vector<UpstreamTest> UpstreamTests();

}  // namespace svcmap::conformance
