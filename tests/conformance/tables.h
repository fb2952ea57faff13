// Data for docs/conformance.md that neither the specification nor the test names contain.
#pragma once

#include <map>
#include <string_view>
#include <vector>

namespace svcmap::conformance {

// Tests that verify a requirement although their names do not contain its number. Returns
// space-separated test names by requirement number.
const std::map<int, std::string_view>& OtherTests();

// A [sig-network] end-to-end test of Kubernetes, or a group of such tests with a common word in
// their names.
struct UpstreamTest {
  std::string_view area;
  std::string_view what;
  // Space-separated names of the equivalent svcmap tests. Empty if `why_none` is set.
  std::string_view ours;
  // Reason why svcmap has no equivalent test. Empty if `ours` is set.
  std::string_view why_none = "";
};

std::vector<UpstreamTest> UpstreamTests();

}  // namespace svcmap::conformance
