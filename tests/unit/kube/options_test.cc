#include "api/kube/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "api/kube/status_pages.h"
#include "tests/support/file.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::kube::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

api::Parsed<KubeOptions> TryParseKube(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "svcmap-kube");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return ParseKubeOptions(static_cast<int>(pointers.size()), pointers.data());
}

KubeOptions ParseKube(const std::vector<std::string>& arguments) {
  const api::Parsed<KubeOptions> parsed = TryParseKube(arguments);
  EXPECT_FALSE(parsed.exit.has_value());
  return parsed.options;
}

// Parses invalid arguments and returns the error message.
std::string Complaint(const std::vector<std::string>& arguments) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(TryParseKube(arguments).exit, 2);
  return ::testing::internal::GetCapturedStderr();
}

TEST(KubeOptionsTest, Defaults) {
  const KubeOptions options = ParseKube({"--node-name", " Node-1\n"});
  EXPECT_EQ(options.selection.node_name, "node-1");  // S-29
  EXPECT_EQ(options.selection.service_proxy_name, "");
  EXPECT_EQ(options.target, "unix:/run/svcmap/svcmap.sock");
  EXPECT_EQ(options.kubeconfig, "");
  EXPECT_FALSE(options.master);
  EXPECT_EQ(options.writes.startup_taint, "");
  EXPECT_FALSE(options.writes.events);
  EXPECT_FALSE(options.healthz_bind_address.has_value());
  EXPECT_FALSE(options.instance.empty());
}

TEST(KubeOptionsTest, S290_S293_TheFileCountsButForTheNameOfTheNodeAndTheMaster) {
  const auto folder = testing::TemporaryFolder::Make();
  const std::string path = folder->path() + "/config.conf";
  std::ofstream(path) << "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
                         "kind: KubeProxyConfiguration\n"
                         "hostnameOverride: From-File\n"
                         "clientConnection: {kubeconfig: /file, qps: 1}\n"
                         "healthzBindAddress: 0.0.0.0:10256\n"
                         "logging: {verbosity: 4}\n";
  const KubeOptions file = ParseKube({"--config", path});
  EXPECT_EQ(file.kubeconfig, "/file");
  EXPECT_EQ(file.selection.node_name, "from-file");
  EXPECT_EQ(file.verbosity, 1);
  EXPECT_FALSE(file.healthz_bind_address.has_value()) << "that is svcmapd's";
  EXPECT_THAT(file.findings, IsEmpty());

  const KubeOptions flags = ParseKube({"--config", path, "--hostname-override", "flag",
                                       "--kubeconfig=/flag", "--master=https://10.0.0.1:6443/"});
  EXPECT_EQ(flags.kubeconfig, "/file");
  EXPECT_EQ(flags.selection.node_name, "flag");
  EXPECT_EQ(flags.master->ToString(), "https://10.0.0.1:6443");
  EXPECT_THAT(flags.findings, ElementsAre("--kubeconfig is ignored because --config is set"));

  std::ofstream(path) << "kind: Other\n";
  EXPECT_THAT(Complaint({"--config", path}), HasSubstr(path));
}

TEST(KubeOptionsTest, S290_TheMasterIsInsteadOfTheServerOfTheKubeconfig) {
  const auto folder = testing::TemporaryFolder::Make();
  const std::string path = folder->path() + "/kubeconfig";
  std::ofstream(path) << "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                         "clusters: [{name: c, cluster: {server: 'https://old:6443'}}]\n"
                         "users: [{name: u, user: {token: t}}]\n"
                         "contexts: [{name: c, context: {cluster: c, user: u}}]\n";
  const ServerUrl other = *ParseServerUrl("https://new:6443");
  EXPECT_EQ(FindApiServer(path, std::nullopt)->url.host, "old");
  const auto both = FindApiServer(path, other);
  EXPECT_EQ(both->url.host, "new");
  EXPECT_EQ(both->token, "t");
  EXPECT_EQ(FindApiServer("", other)->url.host, "new");
}

TEST(KubeOptionsTest, WhatCannotBeUsedIsReported) {
  EXPECT_THAT(Complaint({"--node-name", " "}),
              HasSubstr("--node-name: Invalid value: \" \": must not be blank"));
  EXPECT_THAT(
      Complaint({"--agent", "/run/x.sock"}),
      HasSubstr(
          "--agent: Invalid value: \"/run/x.sock\": must be unix:///PATH or tcp://HOST:PORT"));
  EXPECT_THAT(Complaint({"--tls-ca", "/ca"}), HasSubstr("require a tcp:// address"));
  EXPECT_THAT(Complaint({"--agent", "tcp://a:1", "--tls-cert", "c"}),
              HasSubstr("--tls-cert requires --tls-key"));
  EXPECT_THAT(Complaint({"--master", "10.0.0.1:6443"}), HasSubstr("--master: "));
  EXPECT_THAT(Complaint({"--service-proxy-name", "-a"}),
              HasSubstr("\"-a\": must be a valid label value"));
  EXPECT_THAT(Complaint({"--healthz-bind-address", "127.0.0.1"}), HasSubstr("must contain a port"));
  for (const std::string taint :
       {"svcmap/not-ready:NoSchedule", "/not-ready", "a/b/c", "\"", "a/"}) {
    EXPECT_THAT(Complaint({"--startup-taint", taint}),
                HasSubstr("must be the key of a taint without value and effect"))
        << taint;
  }
}

BridgeFacts WellFacts() {
  BridgeFacts facts;
  for (ListWatchFacts& watch : facts.watches) watch.listed = true;
  facts.complete = facts.push.connected = facts.push.synced = true;
  facts.certificates = {{"tls-cert", {}}};
  return facts;
}

TEST(KubeStatusTest, HealthSaysWhatIsMissing) {
  BridgeFacts facts = WellFacts();
  EXPECT_EQ(KubeHealthzAnswer(facts).code, 200);
  facts.watches[1].last_error = "503";  // The API server failed after the list was complete.
  EXPECT_EQ(KubeHealthzAnswer(facts).code, 200);
  facts.watches[1].listed = facts.complete = false;
  facts.push.synced = false;
  EXPECT_EQ(KubeHealthzAnswer(facts).code, 503);
  EXPECT_EQ(KubeHealthzAnswer(facts).body,
            "endpointslices not listed yet: 503\nsvcmapd not synced\n");
}

TEST(KubeStatusTest, WhatWeDoWithoutIsNoFault) {
  BridgeFacts facts = WellFacts();
  facts.watches[3].listed = false;
  facts.watches[3].last_error = "403";
  EXPECT_EQ(KubeHealthzAnswer(facts).code, 200);
  EXPECT_EQ(KubeHealthzAnswer(facts).body, "ok, servicecidrs not available: 403\n");
}

TEST(KubeStatusTest, AStartupTaintThatStaysIsNoFault) {
  BridgeFacts facts = WellFacts();
  facts.startup_taint_error = "403";
  EXPECT_EQ(KubeHealthzAnswer(facts).code, 200);
  EXPECT_EQ(KubeHealthzAnswer(facts).body, "ok, startup taint not removed: 403\n");
}

TEST(KubeOptionsTest, WritesAreOptional) {
  const KubeOptions options = ParseKube({"--startup-taint=svcmap/not-ready", "--events"});
  EXPECT_EQ(options.writes.startup_taint, "svcmap/not-ready");
  EXPECT_TRUE(options.writes.events);
  EXPECT_EQ(ParseKube({"--startup-taint", "not-ready"}).writes.startup_taint, "not-ready");
}

TEST(KubeStatusTest, EveryMetricIsExposedAndDocumented) {
  const std::string text = KubeMetricsText(WellFacts(), "1.2");
  const std::string docs = svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/svcmap-kube.md");
  for (const api::Metric& metric : KubeMetrics()) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(metric.name)));
    EXPECT_THAT(docs, HasSubstr("`" + std::string(metric.name) + "`"));
  }
  EXPECT_THAT(text, HasSubstr("svcmap_kube_listed{resource=\"services\"} 1"));
}

TEST(KubeOptionsTest, EveryFlagIsDocumented) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(TryParseKube({"--help"}).exit, 0);
  const std::string help = ::testing::internal::GetCapturedStdout();
  const std::string docs = svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/svcmap-kube.md");
  for (size_t at = 0; (at = help.find("--", at)) != std::string::npos;) {
    const size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
    const std::string flag = help.substr(at, end - at);
    EXPECT_THAT(docs, HasSubstr("`" + flag)) << "docs/svcmap-kube.md has no " << flag;
    at = end;
  }
}

}  // namespace
}  // namespace svcmap::kube::test
