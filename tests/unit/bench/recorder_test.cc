#include "tests/bench/record/recorder.h"

#include <gtest/gtest.h>

#include "tests/bench/record/machine.h"
#include "tests/bench/record/markdown.h"
#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

TEST(RecorderTest, WhatACostDoesNotTellIsNoFigure) {
  ASSERT_OK_AND_ASSIGN(const auto samples, Samples::Open(""));
  Recorder recorder(*samples, "sync", "10x1");
  recorder.Add("iptables-nft", "load", 1, Cost{.seconds = 2, .peak_rss_kib = 0});
  EXPECT_EQ(AllRounds(recorder.Of("iptables-nft", "load", "seconds")), std::vector<double>{2});
  EXPECT_EQ(AllRounds(recorder.Of("iptables-nft", "load", "peak_rss_kib")), std::vector<double>{0});
  EXPECT_TRUE(recorder.Of("iptables-nft", "load", "kernel_seconds").empty());
  EXPECT_TRUE(recorder.Of("nobody", "load", "seconds").empty());
}

TEST(RecorderTest, TroubleIsReportedInPlaceOfAFigure) {
  ASSERT_OK_AND_ASSIGN(const auto samples, Samples::Open(""));
  Recorder recorder(*samples, "sync", "10x1");
  EXPECT_EQ(recorder.Trouble("a", "load"), "");
  recorder.AddFailure("a", "load", 1, absl::DeadlineExceededError(""), std::chrono::seconds(9));
  EXPECT_EQ(recorder.Trouble("a", "load"), "over 9 s");
  recorder.AddFailure("b", "load", 1, absl::InternalError("why"), std::chrono::seconds(9));
  EXPECT_EQ(recorder.Trouble("b", "load"), "failed");
}

TEST(RecorderTest, WhatIsUnimplementedIsNoTrouble) {
  ASSERT_OK_AND_ASSIGN(const auto samples, Samples::Open(""));
  Recorder recorder(*samples, "sync", "10x1");
  recorder.AddFailure("a", "load", 1, absl::UnimplementedError("why"), std::chrono::seconds(9));
  EXPECT_EQ(recorder.Trouble("a", "load"), "");
}

TEST(MarkdownTest, FiguresHaveTheirUnits) {
  EXPECT_EQ(SecondsText(0.0000521), "0.052 ms");
  EXPECT_EQ(SecondsText(0.0173), "17.3 ms");
  EXPECT_EQ(SecondsText(1.204), "1.20 s");
  EXPECT_EQ(SpreadText({{1, {1}}, {2, {2}}, {3, {4}}}), "2.00 s +- 1.00 s");
  EXPECT_EQ(RatioText({{1, {3}}}, {{1, {2}}}), "1.50x");
  EXPECT_EQ(RatioText({{1, {300}}}, {{1, {2}}}), "150x");
  EXPECT_EQ(SecondsText(Rounds{}), "-");
  EXPECT_EQ(RatioText({}, {}), "-");
}

TEST(MachineTest, TellsOfKubeProxyIfThereIsOne) {
  // Use nft as kube_proxy, because any executable that supports --version is sufficient for this
  // test.
  const std::string with = MachineJson({.kube_proxy = "nft", .kube_proxy_mode = "iptables"});
  EXPECT_NE(with.find("\"kube_proxy\": \"nftables v"), std::string::npos) << with;
  EXPECT_NE(with.find("\"kube_proxy_mode\": \"iptables\""), std::string::npos) << with;
  EXPECT_EQ(MachineJson({.kube_proxy_mode = "iptables"}).find("kube_proxy"), std::string::npos);
}

TEST(MachineTest, ValuesAreFoundByTheWholeName) {
  const std::string text = "PRETTY_NAME=\"Some Linux 1\"\nNAME=\"Linux\"\nID=x\n";
  EXPECT_EQ(ValueOf(text, "NAME", '='), "Linux");
  EXPECT_EQ(ValueOf(text, "PRETTY_NAME", '='), "Some Linux 1");
  EXPECT_EQ(ValueOf(text, "VERSION", '='), "");
  EXPECT_EQ(ValueOf("model name\t: A CPU @ 2 GHz: fast\n", "model name", ':'),
            "A CPU @ 2 GHz: fast");
}

}  // namespace
}  // namespace svcmap::bench
