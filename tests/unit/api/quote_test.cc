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

}  // namespace
}  // namespace svcmap::api
