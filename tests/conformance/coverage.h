// Checks whether tests verify the requirements of the specification.
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

// Tests by requirement number. TestsOf() returns tests whose names contain the requirement's
// number, and the tests in `other`.
using TestsByRequirement = std::map<int, std::set<std::string>>;
TestsByRequirement TestsOf(const TestList& tests, const std::map<int, std::string_view>& other);

// Returns one sentence for each requirement that tests do not verify. A requirement is unverified
// if it has neither a test nor an explanation, or if a test does not count as evidence. Tests of
// programs in `without_results` are not checked.
std::vector<std::string> Uncovered(const std::vector<Section>& specification,
                                   const TestsByRequirement& by_requirement, const TestList& tests,
                                   const Results& results,
                                   const std::set<std::string>& without_results);

}  // namespace svcmap::conformance
