#include "proxy/desired/ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

// Returns the bounds of the merged ranges, for example "10.96.0.0" and "10.97.0.0 end".
Lines Bounds(const std::vector<std::string>& cidrs) {
  std::vector<IpPrefix> prefixes;
  for (const std::string& cidr : cidrs) prefixes.push_back(Cidr(cidr));
  Lines lines = Texts(RangeRows(kServiceCidrs, MergeRanges(prefixes)));
  for (std::string& line : lines) line.erase(0, std::string("service-cidrs ").size());
  return lines;
}

TEST(RangesTest, AreDisjoint) {
  const struct {
    const char* name;
    std::vector<std::string> cidrs;
    Lines bounds;
  } cases[] = {
      {"none", {}, {}},
      {"one", {"10.96.0.0/16"}, {"10.96.0.0", "10.97.0.0 end"}},
      {"one address", {"10.96.0.1/32"}, {"10.96.0.1", "10.96.0.2 end"}},
      {"apart",
       {"10.98.0.0/16", "10.96.0.0/16"},
       {"10.96.0.0", "10.97.0.0 end", "10.98.0.0", "10.99.0.0 end"}},
      {"twice the same", {"10.96.0.0/16", "10.96.0.0/16"}, {"10.96.0.0", "10.97.0.0 end"}},
      {"one inside the other", {"10.96.3.0/24", "10.96.0.0/16"}, {"10.96.0.0", "10.97.0.0 end"}},
      {"one inside the other from its start",
       {"10.96.0.0/24", "10.96.0.0/16"},
       {"10.96.0.0", "10.97.0.0 end"}},
      {"adjacent", {"10.97.0.0/16", "10.96.0.0/16"}, {"10.96.0.0", "10.98.0.0 end"}},
      {"inside, then adjacent to the outer one",
       {"10.96.0.0/16", "10.96.0.0/24", "10.97.0.0/16"},
       {"10.96.0.0", "10.98.0.0 end"}},
      {"everything", {"0.0.0.0/0", "10.0.0.0/8"}, {"0.0.0.0"}},
      {"up to the last address", {"255.255.0.0/16"}, {"255.255.0.0"}},
      {"the last address",
       {"255.255.255.255/32", "10.0.0.0/8"},
       {"10.0.0.0", "11.0.0.0 end", "255.255.255.255"}},
      {"adjacent up to the last address",
       {"255.255.255.254/32", "255.255.255.255/32"},
       {"255.255.255.254"}},
      {"the other half", {"0.0.0.0/1", "128.0.0.0/1"}, {"0.0.0.0"}},
      {"IPv6", {"fd00:96::/112"}, {"fd00:96::", "fd00:96::1:0 end"}},
      {"all of IPv6", {"::/0"}, {"::"}},
      {"both families",
       {"fd00::/16", "10.0.0.0/8"},
       {"10.0.0.0", "11.0.0.0 end", "fd00::", "fd01:: end"}},
      {"families are not adjacent", {"255.0.0.0/8", "::/16"}, {"255.0.0.0", "::", "1:: end"}},
  };
  for (const auto& c : cases) {
    std::vector<std::string> cidrs = c.cidrs;
    EXPECT_EQ(Bounds(cidrs), c.bounds) << c.name;
    std::reverse(cidrs.begin(), cidrs.end());
    EXPECT_EQ(Bounds(cidrs), c.bounds) << c.name << ", the other way round";
  }
}

TEST(RangesTest, OutsideIsAllBeforeAndBehind) {
  const struct {
    const char* prefix;
    Lines ranges;
  } cases[] = {
      {"10.244.0.0/16", {"0.0.0.0-10.243.255.255", "10.245.0.0-255.255.255.255"}},
      {"10.0.0.1/32", {"0.0.0.0-10.0.0.0", "10.0.0.2-255.255.255.255"}},
      {"0.0.0.0/1", {"128.0.0.0-255.255.255.255"}},
      {"128.0.0.0/1", {"0.0.0.0-127.255.255.255"}},
      {"0.0.0.0/0", {}},
      {"::/0", {}},
      {"fd00::/16",
       {"::-fcff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "fd01::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}},
  };
  for (const auto& c : cases) {
    Lines ranges;
    for (const AddressRange& range : Outside(Cidr(c.prefix))) {
      ranges.push_back(range.first.ToString() + "-" + range.last.ToString());
    }
    EXPECT_EQ(ranges, c.ranges) << c.prefix;
  }
}

}  // namespace
}  // namespace svcmap::proxy
