// Tests of the text and JSON output of `svcmapctl migrate check`.
#include <gtest/gtest.h>

#include "api/cli/migrate.h"

namespace svcmap::api {
namespace {

const std::vector<Finding> kTwo = {{true, "a chain\nof \"mine\"", "it drops", "accept"},
                                   {false, "kube-proxy runs", "both serve", "wait"}};

TEST(CliMigrateTest, ThePage) {
  EXPECT_EQ(FindingsText({}), "No problems found.\n");
  EXPECT_EQ(FindingsText({kTwo[1]}),
            "NOTE       kube-proxy runs\n"
            "  effect   both serve\n"
            "  remedy   wait\n\n"
            "No problems found, 1 note.\n");
  EXPECT_EQ(FindingsText(kTwo),
            "ATTENTION  a chain\\nof \"mine\"\n"
            "  effect   it drops\n"
            "  remedy   accept\n\n"
            "NOTE       kube-proxy runs\n"
            "  effect   both serve\n"
            "  remedy   wait\n\n"
            "1 finding needs attention, 1 note.\n");
}

TEST(CliMigrateTest, Json) {
  EXPECT_EQ(FindingsJson({kTwo[0]}), R"({
  "attention": true,
  "findings": [
    {
      "level": "attention",
      "what": "a chain\nof \"mine\"",
      "effect": "it drops",
      "remedy": "accept"
    }
  ]
}
)");
}

}  // namespace
}  // namespace svcmap::api
