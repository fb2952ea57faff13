// Whether tests show what the specification requires.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/results.h"
#include "tests/conformance/specification.h"
#include "tests/conformance/test_list.h"

namespace svcmap::conformance {

// Tests of a requirement: those whose names carry its number, and `other`.
using TestsByRequirement = std::map<int, std::set<std::string>>;
TestsByRequirement TestsOf(const TestList& tests, const std::map<int, std::string_view>& other);

// Whether tests of `program` show svcmap's behavior. Those of the benchmarks show the behavior of
// the kube-proxy rules to which the benchmarks compare svcmap.
bool ShowsSvcmap(std::string_view program);

// Whether one of `names` is a test of a program that shows svcmap's behavior.
bool AnyShowsSvcmap(const std::set<std::string>& names, const TestList& tests);

// One sentence for each requirement that tests do not show: it has no test and no reason for that,
// or one of its tests does not count. Tests of programs in `without_results` are not judged.
std::vector<std::string> Uncovered(const std::vector<Section>& specification,
                                   const TestsByRequirement& by_requirement, const TestList& tests,
                                   const Results& results,
                                   const std::set<std::string>& without_results);

}  // namespace svcmap::conformance
