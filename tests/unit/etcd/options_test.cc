#include "api/etcd/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/etcd/status_pages.h"
#include "tests/support/file.h"

namespace svcmap::etcd::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kRequired = {"--etcd-endpoints", "http://a:2379", "--prefix", "/p"};

api::Parsed<ProgramOptions> TryParse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "svcmap-etcd");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return ParseOptions(static_cast<int>(pointers.size()), pointers.data());
}

// Parses the required options and `arguments`, whose values replace earlier values.
std::vector<std::string> With(std::vector<std::string> arguments) {
  for (size_t i = 0; i < kRequired.size(); i += 2) {
    if (std::find(arguments.begin(), arguments.end(), kRequired[i]) != arguments.end()) continue;
    arguments.insert(arguments.end(), {kRequired[i], kRequired[i + 1]});
  }
  return arguments;
}

std::string Complaint(const std::vector<std::string>& arguments) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(TryParse(With(arguments)).exit, 2);
  return ::testing::internal::GetCapturedStderr();
}

std::string Documentation() {
  return svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/fleet.md");
}

TEST(EtcdOptionsTest, Values) {
  const api::Parsed<ProgramOptions> parsed =
      TryParse({"--etcd-endpoints", "https://a:1,https://[::1]:2", "--etcd-ca", "/ca", "--prefix",
                "/svcmap/v1/prod", "--node-name", "N1", "--silence", "8", "--list-delay", "0"});
  ASSERT_FALSE(parsed.exit.has_value());
  const EtcdOptions& etcd = parsed.options.etcd;
  EXPECT_THAT(etcd.endpoints, ElementsAre("dns:///a:1", "dns:///[::1]:2"));
  EXPECT_EQ(etcd.follower.node_name, "n1");
  EXPECT_EQ(etcd.follower.prefix, "/svcmap/v1/prod");
  EXPECT_EQ(etcd.follower.silence, std::chrono::seconds(8));
  EXPECT_EQ(etcd.follower.list_delay, std::chrono::seconds(0));
  EXPECT_EQ(parsed.options.target, "unix:/run/svcmap/svcmap.sock");
}

TEST(EtcdOptionsTest, WhatCannotBeUsedIsReported) {
  EXPECT_THAT(Complaint({"--etcd-endpoints", "a:2379"}),
              HasSubstr("--etcd-endpoints: Invalid value: \"a:2379\": must be http://HOST:PORT"));
  EXPECT_THAT(Complaint({"--etcd-endpoints", "http://a"}), HasSubstr("\"http://a\": must be"));
  EXPECT_THAT(Complaint({"--etcd-endpoints", "http://a:1,https://b:1"}), HasSubstr("must be all"));
  EXPECT_THAT(Complaint({"--etcd-endpoints", "https://a:1"}),
              HasSubstr("--etcd-ca: Required value"));
  EXPECT_THAT(Complaint({"--etcd-ca", "/ca"}), HasSubstr("require https:// endpoints"));
  EXPECT_THAT(Complaint({"--etcd-endpoints", "https://a:1", "--etcd-ca", "c", "--etcd-key", "k"}),
              HasSubstr("require each other"));
  for (const char* prefix : {"svcmap", "/svcmap/", "/", ""}) {
    EXPECT_THAT(Complaint({"--prefix", prefix}), HasSubstr("must start with '/'"));
  }
  EXPECT_THAT(Complaint({"--status-prefix", "x/"}), HasSubstr("--status-prefix: Invalid value"));
  for (const char* prefix : {"/p", "/p/state/x", "/p/nodes/n"}) {
    EXPECT_THAT(Complaint({"--status-prefix", prefix}), HasSubstr("must not contain the keys of"));
  }
  EXPECT_THAT(Complaint({"--prefix", "/p/q", "--status-prefix", "/p"}),
              HasSubstr("\"/p\": must not contain the keys of --prefix"));
  EXPECT_THAT(Complaint({"--node-name", "a/b"}), HasSubstr("\"a/b\": must be the name of a node"));
  EXPECT_THAT(Complaint({"--silence", "0"}), HasSubstr("--silence: Invalid value: 0: must be"));
  EXPECT_THAT(Complaint({"--agent-address", "tcp://n1:7070"}), HasSubstr("requires --status-pre"));
  EXPECT_THAT(Complaint({"--status-prefix", "/s", "--agent-address", "unix:///run/s.sock"}),
              HasSubstr("--agent-address: Invalid value: \"unix:///run/s.sock\": must be tcp://"));
  EXPECT_THAT(Complaint({"--agent", "x"}), HasSubstr("--agent: Invalid value"));
}

Facts WellFacts() {
  Facts facts;
  facts.etcd.listed = facts.push.synced = true;
  facts.certificates = {{"etcd-cert", {}}};
  return facts;
}

TEST(EtcdPagesTest, HealthSaysWhatIsMissing) {
  Facts facts = WellFacts();
  facts.etcd.last_error = "unreachable";  // The objects stay in effect.
  EXPECT_EQ(HealthzAnswer(facts).code, 200);
  facts.push.held = "95 of 100 Services";
  EXPECT_EQ(HealthzAnswer(facts).code, 503);
  EXPECT_EQ(HealthzAnswer(facts).body,
            "svcmapd holds the removals of the snapshot: 95 of 100 Services\n");
  facts.push = {};
  facts.etcd.listed = false;
  EXPECT_EQ(HealthzAnswer(facts).body, "objects not listed yet: unreachable\nsvcmapd not synced\n");
}

TEST(EtcdPagesTest, EveryMetricIsExposedAndDocumented) {
  const std::string text = MetricsText(WellFacts(), "1.2");
  const std::string docs = Documentation();
  for (const api::Metric& metric : Metrics()) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(metric.name)));
    EXPECT_THAT(docs, HasSubstr("`" + std::string(metric.name) + "`"));
  }
}

TEST(EtcdOptionsTest, EveryFlagIsDocumented) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(TryParse({"--help"}).exit, 0);
  const std::string help = ::testing::internal::GetCapturedStdout();
  const std::string docs = Documentation();
  for (size_t at = 0; (at = help.find("--", at)) != std::string::npos;) {
    const size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
    const std::string flag = help.substr(at, end - at);
    EXPECT_THAT(docs, HasSubstr("`" + flag)) << "docs/fleet.md has no " << flag;
    at = end;
  }
}

}  // namespace
}  // namespace svcmap::etcd::test
