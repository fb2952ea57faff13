#include "api/daemon/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace svcmap::api {
namespace {

DaemonOptions Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "svcmapd");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  const ParsedOptions parsed =
      ParseDaemonOptions(static_cast<int>(pointers.size()), pointers.data());
  EXPECT_FALSE(parsed.exit.has_value());
  return parsed.options;
}

TEST(DaemonOptionsTest, S29_TheNameOfThisNodeIsTrimmedAndLowerCase) {
  EXPECT_EQ(Parse({"--node-name", " Node-1.Example\t"}).node_name, "node-1.example");
}

TEST(DaemonOptionsTest, S29_TheNameOfThisNodeIsTheHostNameUnlessItIsGiven) {
  const std::string name = Parse({}).node_name;
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(Parse({"--node-name", name}).node_name, name);
}

TEST(DaemonOptionsTest, S6_ExternalIpsAreProgrammedUnlessToldOtherwise) {
  EXPECT_TRUE(Parse({}).external_ips);
  EXPECT_FALSE(Parse({"--no-external-ips"}).external_ips);
}

}  // namespace
}  // namespace svcmap::api
