// The names of tests, as gtest programs list them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace svcmap::conformance {

struct TestList {
  std::set<std::string> names;
  std::map<int, std::set<std::string>> by_requirement;
};

// Adds what a program says to --gtest_list_tests. A name is "Suite.Test"; if the parameter of a
// test carries the number of a requirement, "Suite.Test/Parameter" with "*" for IPv4 and IPv6. So
// each of them, or with "/*" behind it, works as a --gtest_filter. Disabled tests are left out.
void AddTests(std::string_view listing, TestList& tests);

// The requirements that a name carries: "Suite.S10_S12_Text" and "Suite.S10S12Text" 10 and 12,
// "Suite.Test/S10ToS12_Text" all three.
std::vector<int> RequirementsIn(std::string_view name);

}  // namespace svcmap::conformance
