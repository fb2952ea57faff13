// Names of tests, as GoogleTest programs list them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace svcmap::conformance {

struct TestList {
  std::map<std::string, std::set<std::string>> programs;  // By name of the test.
  std::map<int, std::set<std::string>> by_requirement;
};

// The name by which a test is known here: "Suite.Test" without the name of the instantiation, and
// without the parameter unless the parameter carries a number of a requirement. Such a parameter
// has "*" in place of IPv4 and IPv6. The name, or the name with "/*" appended, is a --gtest_filter.
std::string TestName(std::string_view suite, std::string_view test);

// Adds the output of --gtest_list_tests. Ignores disabled tests.
void AddTests(const std::string& program, std::string_view listing, TestList& tests);

// Numbers that a name carries: "Suite.S10_S12_Text" and "Suite.S10S12Text" carry 10 and 12,
// "Suite.Test/S10ToS12_Text" carries 10, 11 and 12.
std::vector<int> RequirementsIn(std::string_view name);

}  // namespace svcmap::conformance
