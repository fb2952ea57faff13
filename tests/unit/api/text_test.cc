#include "api/convert/quote.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/log/log_value.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {
namespace {

TEST(QuoteTest, LongTextIsCutAtACharacterAndControlsAreEscaped) {
  EXPECT_EQ(Quote("a\"b\\c\n\x1b\x7f"), R"("a\"b\\c\u000a\u001b\u007f")");
  EXPECT_EQ(Quote("\xc2\x9b"), R"("\u009b")");
  EXPECT_EQ(Quote("\u202e\u2066\u061c"), R"("\u202e\u2066\u061c")");
  EXPECT_EQ(Quote("\u2027\u2030"), "\"\u2027\u2030\"");
  EXPECT_EQ(Quote("\xff\xc3"), R"("\xff\xc3")");
  EXPECT_EQ(Quote(std::string(64, 'x')), "\"" + std::string(64, 'x') + "\"");
  EXPECT_EQ(Quote(std::string(65, 'x')), "\"" + std::string(64, 'x') + "\"...");
  EXPECT_EQ(Quote(std::string(63, 'x') + "\xc3\xbc"), "\"" + std::string(63, 'x') + "\"...");
}

TEST(QuoteTest, Utf8IsCheckedAtEachByte) {
  const std::string two_bytes = "\xc3\xa9";
  for (size_t size = 0; size <= 20; ++size) {
    const std::string ascii(size, 'a');
    EXPECT_TRUE(IsUtf8(ascii)) << size;
    for (size_t at = 0; at <= size; ++at) {
      std::string text = ascii;
      EXPECT_TRUE(IsUtf8(text.insert(at, two_bytes))) << size << ' ' << at;
      EXPECT_FALSE(IsUtf8(text.erase(at + 1, 1))) << size << ' ' << at;
    }
  }
}

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

TEST(LogValueTest, PlainTextIsNotQuoted) {
  EXPECT_EQ(LogValue("svcmap-kube"), "svcmap-kube");
  EXPECT_EQ(LogValue("unix:///run/svcmap/svcmap.sock"), "unix:///run/svcmap/svcmap.sock");
}

TEST(LogValueTest, TextThatWouldBreakAFieldIsQuoted) {
  EXPECT_EQ(LogValue(""), "\"\"");
  EXPECT_EQ(LogValue("uid 1000"), "\"uid 1000\"");
  EXPECT_EQ(LogValue("a=b"), "\"a=b\"");
  EXPECT_EQ(LogValue("the \"port\" of C:\\"), "\"the \\\"port\\\" of C:\\\\\"");
}

TEST(LogValueTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(LogValue("first\nsecond"), "\"first\\nsecond\"");
  EXPECT_EQ(LogValue("\x1b[31m"), "\"\\u001b[31m\"");
}

TEST(LogValueTest, CharactersThatATerminalInterpretsAndInvalidBytesAreEscaped) {
  EXPECT_EQ(LogValue("a\u202eb"), R"("a\u202eb")");
  EXPECT_EQ(LogValue("a\u2028b"), R"("a\u2028b")");
  EXPECT_EQ(LogValue("\xc2\x9b"), R"("\u009b")");
  EXPECT_EQ(LogValue("\xff\xe2\x80"), R"("\xff\xe2\x80")");
  EXPECT_EQ(LogValue("gr\u00fc\u00df\u20ac\U0001f600"), "gr\u00fc\u00df\u20ac\U0001f600");
}

TEST(LogValueTest, StatusIsItsMessage) {
  EXPECT_EQ(LogValue(absl::NotFoundError("no such table")), "\"no such table\"");
}

}  // namespace
}  // namespace svcmap::api
