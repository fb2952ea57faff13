#include "api/convert/quote.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace svcmap::api
