// Tests of `svcmapctl support-bundle` on a node with a planted fault, and of svcmapctl --bundle
// without the node.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/ctl/ctl_world.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BundleTest : public CtlTest {
 protected:
  void SetUp() override {
    CtlTest::SetUp();
    if (HasFatalFailure()) return;
    absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_OK(folder);
    folder_.emplace(*std::move(folder));
    file_ = folder_->path() + "/bundle.tar.gz";
    absl::StatusOr<NetNs> elsewhere = NetNs::Create();
    ASSERT_OK(elsewhere);
    elsewhere_.emplace(*std::move(elsewhere));
  }

  // Runs svcmapctl in another namespace, where no agent is reachable.
  CommandResult Read(std::vector<std::string> args) {
    args.insert(args.begin(), {SVCMAP_BIN_DIR "/svcmapctl", "--bundle", file_});
    const absl::StatusOr<CommandResult> result = RunCommand(
        {.argv = args, .netns = &*elsewhere_, .env = {"SVCMAP_ADDRESS=unix:///nonexistent.sock"}});
    EXPECT_OK(result);
    return result.ok() ? *result : CommandResult();
  }
  // Returns a file of the bundle.
  std::string Extract(const std::string& name) {
    const absl::StatusOr<std::string> text = RunOk({.argv = {"tar", "-xzOf", file_, name}});
    EXPECT_OK(text);
    return text.value_or("");
  }

  std::optional<TemporaryFolder> folder_;
  std::optional<NetNs> elsewhere_;
  std::string file_;
};

TEST_F(BundleTest, FaultIsFoundWithoutTheNode) {
  const std::string log = folder_->path() + "/svcmapd.log";
  std::ofstream(log) << "recent line\n";
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  // The fault, and a UDP flow to an address that is not an endpoint.
  ASSERT_OK(RunNft(node().netns(),
                   absl::StrCat("table inet firewall { chain output {\n",
                                "type filter hook output priority 10; policy accept;\n",
                                "ip daddr ", pod_a().v4(), " tcp dport 8080 drop\n}\n}\n")));
  const CommandResult live_status = Ctl({"status"});
  const CommandResult live_get = Ctl({"get", "eps", "-o", "yaml"});
  const CommandResult live_dump = Ctl({"dump", "applied"});
  const CommandResult live_explain = Ctl({"explain", kWeb.v4 + ":80"});
  CommandResult made;
  WithFlow(40001, kWeb, "10.244.1.250", [&] {
    std::filesystem::remove(file_);
    made = Ctl({"support-bundle", file_, "--log", log});
  });
  ASSERT_OK(RunNft(node().netns(), "delete table inet firewall"));
  ASSERT_OK(FlushConntrack(node().netns()));
  ASSERT_EQ(made.exit.code, 0) << made.err;

  // The reader sees the difference, the cause and the rule.
  const std::string check = Extract("check.txt");
  EXPECT_THAT(check, HasSubstr(absl::StrCat("shop/web:tcp clusterIP ", kWeb.v4, ":80/TCP")));
  EXPECT_THAT(check, HasSubstr(absl::StrCat(
                         "foreign-rule: a rule of other software matches: \"ip "
                         "daddr ",
                         pod_a().v4(), " tcp dport 8080 drop\" in chain inet firewall output")));
  EXPECT_THAT(check, HasSubstr("conntrack-entry"));
  EXPECT_THAT(Extract("node/ruleset.nft"), HasSubstr("table inet firewall"));
  EXPECT_THAT(Extract("node/preflight.json"), HasSubstr("\"firewall\""));
  EXPECT_THAT(Extract("node/svcmap.nft"), HasSubstr(kWeb.v4 + " . tcp . 80"));
  EXPECT_THAT(
      Extract("node/conntrack.txt"),
      HasSubstr(absl::StrCat(kWeb.v4, ":80 -> 10.244.1.250:8080  1  ", pod_b().v4(), ":40001")));
  EXPECT_THAT(Extract("node/sysctls.txt"), HasSubstr("net.ipv4.ip_forward = 1\n"));
  EXPECT_THAT(Extract("node/system.txt"), HasSubstr("kernel   Linux"));
  EXPECT_THAT(Extract("node/network.txt"),
              AllOf(HasSubstr(pod_a().v4()), HasSubstr("\n# ip neighbour\n")));
  EXPECT_EQ(Extract("node/svcmapd.log"), "recent line\n");
  EXPECT_THAT(Extract("agent/metrics.txt"), HasSubstr("svcmap_build_info"));

  // The commands print the same as on the node.
  EXPECT_EQ(Read({"get", "eps", "-o", "yaml"}).out, live_get.out);
  EXPECT_EQ(Read({"dump", "applied"}).out.size(), live_dump.out.size());
  EXPECT_EQ(Read({"dump", "plan"}).out, "");
  EXPECT_EQ(Read({"explain", kWeb.v4 + ":80"}).out, live_explain.out);
  EXPECT_THAT(
      Read({"explain", absl::StrCat(kNodeV4, ":", kNodePort, "/UDP"), "--from", "node"}).out,
      HasSubstr("DNAT to"));
  const std::string status = Read({"status"}).out;
  EXPECT_THAT(status, AllOf(HasSubstr("on node n1"), HasSubstr("State        serving")));
  EXPECT_EQ(status.substr(0, status.find('\n')),
            live_status.out.substr(0, live_status.out.find('\n')));
}

}  // namespace
}  // namespace svcmap::testing
