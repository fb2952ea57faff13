#include "api/log/log_value.h"

#include <gtest/gtest.h>

namespace svcmap::api {
namespace {

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
