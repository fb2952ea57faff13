#include "api/cli/text.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "api/cli/fd_output.h"
#include "api/cli/message_text.h"
#include "api/cli/status.h"
#include "api/cli/table.h"
#include "api/manifests/json_text.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;

TEST(TextTest, TextFromOutsideStaysOneLineAndCannotMoveTheCursor) {
  EXPECT_EQ(OneLine("a\nb\x1b[2J\x7f"), "a\\nb\\x1b[2J\\x7f");
  EXPECT_EQ(OneLine("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(OneLine("\xff"), "\\xff");
  EXPECT_EQ(OneLine("K\xc3\xbckel \xe2\x82\xac"), "K\xc3\xbckel \xe2\x82\xac");
}

TEST(TextTest, DurationsNeedAUnitAndABound) {
  EXPECT_EQ(ParseDuration("10s")->count(), 10'000);
  EXPECT_EQ(ParseDuration("1m30s")->count(), 90'000);
  EXPECT_EQ(ParseDuration("1.5s")->count(), 1'500);
  for (const char* bad : {"", "10", "s", "0", "0s", "-1s", "1us", "inf", "9000h", "1s x"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
}

TEST(TextTest, NumbersForPeople) {
  google::protobuf::Duration duration;
  duration.set_nanos(412'345);
  EXPECT_EQ(DurationText(duration), "0.41 ms");
  duration.set_seconds(12);
  EXPECT_EQ(DurationText(duration), "12.0 s");
  EXPECT_EQ(DurationText(std::chrono::milliseconds(90'000)), "1m30s");
  google::protobuf::Timestamp time;
  time.set_seconds(1'700'000'000);
  time.set_nanos(5);
  EXPECT_EQ(TimeText(time), "2023-11-14T22:13:20Z");
  time.set_seconds(1LL << 60);
  EXPECT_EQ(TimeText(time), "(invalid time)");
  EXPECT_EQ(BytesText(640), "640 bytes");
  EXPECT_EQ(BytesText(16'777'216), "16.8 MB");
  EXPECT_EQ(CountText(1, "object"), "1 object");
  EXPECT_EQ(CountText(0, "object"), "0 objects");
}

TEST(TableTest, TheWidestCellsAreShortenedToFit) {
  std::ostringstream out;
  Table table({"NAME", "ADDRESS", "PORT(S)"}, out, 30);
  table.Row({"web", "2001:db8:1234:5678::1", "80/TCP,443/TCP"});
  table.Row({"a", "10.0.0.1", "53/UDP"});
  table.Finish();
  table.Row({"a-new-name", "10.0.0.1", ""});  // Widths of printed columns do not change.
  EXPECT_EQ(out.str(),
            "NAME  ADDRESS      PORT(S)\n"
            "web   2001:db8...  80/TCP,4...\n"
            "a     10.0.0.1     53/UDP\n"
            "a...  10.0.0.1     <none>\n");
}

TEST(TableTest, NamesAreShortenedLessAndInTheMiddle) {
  std::ostringstream out;
  Table table({"NAME", "TYPE", "PORT(S)"}, out, 44);
  table.Row({"a-very-long-name-of-a-service-v4", "ClusterIP", "80:30080/TCP"});
  table.Row({"a-very-long-name-of-a-service-v6", "ClusterIP", "80:30080/TCP"});
  table.Finish();
  EXPECT_EQ(out.str(),
            "NAME                   TYPE       PORT(S)\n"
            "a-very-lo...ervice-v4  ClusterIP  80:3008...\n"
            "a-very-lo...ervice-v6  ClusterIP  80:3008...\n");
}

TEST(TextTest, ShortenedTextKeepsWholeCharacters) {
  EXPECT_EQ(Shorten("K\xc3\xbckelchen", 9), "K\xc3\xbckelchen");
  EXPECT_EQ(Shorten("K\xc3\xbckelchen", 5), "K\xc3\xbc...");
  EXPECT_EQ(Shorten("K\xc3\xbckelchen", 2), "..");
}

TEST(TextTest, ShortenedNamesKeepBothEnds) {
  EXPECT_EQ(ShortenMiddle("web-v6", 6), "web-v6");
  EXPECT_EQ(ShortenMiddle("payments-v6", 10), "paym...-v6");
  EXPECT_EQ(ShortenMiddle("payments-v6", 6), "pay...");
  EXPECT_EQ(ShortenMiddle("K\xc3\xbckelchen", 8), "K\xc3\xbckel...");
}

TEST(TextTest, LinesAreBrokenAtSpacesAndAligned) {
  EXPECT_EQ(FitLines("a b\n", 0), "a b\n");
  EXPECT_EQ(FitLines("Objects       3 services, 1 endpointslice, 1 node\n", 40),
            "Objects       3 services, 1\n"
            "              endpointslice, 1 node\n");
  EXPECT_EQ(FitLines("  Service shop/web rejected: spec.ports[0].port: Invalid\n\nend\n", 30),
            "  Service shop/web rejected:\n"
            "    spec.ports[0].port:\n"
            "    Invalid\n"
            "\n"
            "end\n");
  // A word that is longer than a line is not broken.
  EXPECT_EQ(FitLines("Label  " + std::string(40, 'x') + " y z\n", 20),
            "Label  " + std::string(40, 'x') + "\n       y z\n");
}

TEST(TableTest, ManyRowsArePrintedBeforeTheEnd) {
  std::ostringstream out;
  Table table({"A", "B"}, out);
  for (size_t i = 0; i < Table::kRowsHeldBack; ++i) table.Row({"x", "y"});
  EXPECT_TRUE(out.str().starts_with("A  B\nx  y\n"));
  out.str("");
  table.Row({"wide", "y"});
  table.Row({"x", "y"});
  EXPECT_EQ(out.str(), "wide  y\nx     y\n");
}

TEST(MessageTextTest, JsonHasEveryFieldAndNumbersAsNumbers) {
  v1::GetStatusResponse status;
  status.set_node_name("n\"1");
  status.set_state(v1::SERVING);
  status.set_revision(1ull << 40);
  status.add_objects()->set_kind(v1::KIND_SERVICE);
  status.mutable_last_commit()->mutable_duration()->set_nanos(412'000);
  const std::string json = JsonText(MessageTree(status));
  EXPECT_THAT(json, HasSubstr("\"nodeName\": \"n\\\"1\",\n  \"state\": \"SERVING\",\n"));
  EXPECT_THAT(json, HasSubstr("\"revision\": 1099511627776,\n"));
  EXPECT_THAT(json, HasSubstr("\"objects\": [\n    {\n      \"kind\": \"KIND_SERVICE\",\n"
                              "      \"count\": 0\n    }\n  ],\n"));
  EXPECT_THAT(json, HasSubstr("\"duration\": \"0.000412s\""));
  EXPECT_THAT(json, HasSubstr("\"findings\": []"));
  EXPECT_THAT(json, Not(HasSubstr("controller")));  // The field `controller` is not set.
  EXPECT_EQ(JsonText(MessageTree(v1::GetStatusRequest())), "{}\n");
}

TEST(StatusTextTest, StatesWeDoNotKnowAreNumbers) {
  EXPECT_EQ(StateName(v1::RETRYING), "retrying");
  EXPECT_EQ(StateName(static_cast<v1::State>(9)), "state 9");
}

TEST(FdOutputTest, RemembersWhyWritingFailed) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  FdOutput output(ends[1]);
  std::ostream out(&output);
  out << "text" << std::flush;
  char text[5] = {};
  EXPECT_EQ(read(ends[0], text, 4), 4);
  EXPECT_STREQ(text, "text");
  close(ends[0]);
  out << std::string(1'000'000, 'x');
  EXPECT_FALSE(out.good());
  EXPECT_EQ(output.error(), EPIPE);
  close(ends[1]);

  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  FdOutput full_output(full);
  std::ostream(&full_output) << "x" << std::flush;
  EXPECT_EQ(full_output.error(), ENOSPC);
  close(full);
}

}  // namespace
}  // namespace svcmap::api
