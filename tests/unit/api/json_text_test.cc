#include "api/manifests/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace svcmap::api {
namespace {

TEST(JsonTextTest, EscapesControlCharacters) {
  EXPECT_EQ(JsonLine("a\"b\\c\n\x1b\x7f\xc2\x9b\xc3\xa9"),
            "\"a\\\"b\\\\c\\n\\u001b\\u007f\\u009b\xc3\xa9\"\n");
  const std::string text(1000, 'x');
  EXPECT_EQ(JsonLine(text), '"' + text + "\"\n");
}

TEST(JsonTextTest, ReplacesBytesThatAreNotUtf8) { EXPECT_EQ(JsonText("a\xff"), "\"a\ufffd\"\n"); }

TEST(JsonTextTest, YamlOfNestedAndEmptyCollections) {
  using Json = nlohmann::ordered_json;
  EXPECT_EQ(YamlText({{"list", {1, {{"a", 2}, {"bcde", {3}}}, Json::array({Json::array({4})})}},
                      {"empty", Json::array()},
                      {"map", {{"also", Json::object()}}}}),
            R"(list:
- 1
- "a": 2
  bcde:
  - 3
- - - 4
empty: []
"map":
  also: {}
)");
  EXPECT_EQ(YamlText(Json::object()), "{}\n");
}

}  // namespace
}  // namespace svcmap::api
