// Test names in the format of GoogleTest's --gtest_list_tests.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace svcmap::conformance {

struct TestList {
  std::map<std::string, std::set<std::string>> programs;  // Programs by test name.
  std::map<int, std::set<std::string>> by_requirement;
};

// Returns the canonical name of a test: "Suite.Test" without the name of the instantiation, and
// without the parameter unless the parameter contains a requirement number. In a parameter with a
// requirement number, "*" replaces IPv4 and IPv6. The canonical name, or the name with "/*"
// appended, is a valid --gtest_filter.
std::string TestName(std::string_view suite, std::string_view test);

// Adds the tests in the output of --gtest_list_tests. Ignores disabled tests.
void AddTests(const std::string& program, std::string_view listing, TestList& tests);

// Returns the requirement numbers in a name: "Suite.S10_S12_Text" and "Suite.S10S12Text" contain 10
// and 12, "Suite.Test/S10ToS12_Text" contains 10, 11 and 12.
std::vector<int> RequirementsIn(std::string_view name);

}  // namespace svcmap::conformance
