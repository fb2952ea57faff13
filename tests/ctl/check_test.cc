// Tests of `svcmapctl check` with planted faults.
#include <gmock/gmock.h>

#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/ctl/ctl_world.h"
#include "tests/support/damage.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

constexpr int kDifferent = 9;  // Exit code.

class CheckTest : public CtlTest {
 protected:
  std::string timeout_ = "300ms";

  // Runs `svcmapctl check -o json` and returns the report.
  Json Check(std::vector<std::string> args, int expected_code) {
    auto [result, report] = Report(std::move(args));
    EXPECT_EQ(result.exit.code, expected_code) << result.out << result.err;
    return report;
  }
  std::pair<CommandResult, Json> Report(std::vector<std::string> args) {
    args.insert(args.begin(),
                {"check", "-o", "json", "--rate", "1000", "--probe-timeout", timeout_});
    const CommandResult result = Ctl(std::move(args));
    Json json = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(json.is_discarded()) << result.out << result.err;
    return {result, json};
  }
  Json CheckFrom(const Host& pod, int expected_code) {
    return Check({"--netns", pod.netns().path()}, expected_code);
  }

  // Returns the causes as "NAMESPACE/NAME:PORT ROLE KIND".
  static std::vector<std::string> Causes(const Json& report) {
    std::vector<std::string> causes;
    for (const Json& difference : report["differences"]) {
      causes.push_back(absl::StrCat(difference["service"].get<std::string>(), " ",
                                    difference["role"].get<std::string>(), " ",
                                    difference["cause"]["kind"].get<std::string>()));
    }
    return causes;
  }
};

TEST_F(CheckTest, HealthyNodeHasNoDifferences) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kWeb), Web("shop/empty", ClusterIp(11))} +
                          WebSlices("shop/web", {&pod_a(), &remote_pod()})));
  timeout_ = "2s";  // Rejections can take more than 1 s, see ProbeLimits.
  // 8 addresses of shop/web and 2 of shop/empty, over TCP and UDP. SCTP sockets do not exist.
  const Json from_node = Check({}, 0);
  EXPECT_EQ(from_node["addresses"], 20) << from_node.dump(2);
  EXPECT_EQ(from_node["endpoints"], 8);
  EXPECT_EQ(from_node["from"], "the node");
  EXPECT_EQ(from_node["notChecked"].size(), 14);
  EXPECT_EQ(from_node["withoutSlices"].size(), 2);  // shop/empty, for each family.
  EXPECT_EQ(CheckFrom(pod_b(), 0)["addresses"], 20);
  EXPECT_EQ(CheckFrom(client(), 0)["addresses"], 20);
  ASSERT_OK_AND_ASSIGN(const auto process,
                       ChildProcess::Start({.argv = {"sleep", "60"}, .netns = &pod_b().netns()}));
  const std::string pid = std::to_string(process->pid());
  EXPECT_EQ(Check({"--pid", pid}, 0)["from"], "the network namespace of process " + pid);
  // 14 addresses cannot be checked, so a random sample of 15 contains one that can be checked.
  const Json sample = Check({"--sample", "15", "--no-endpoints", "-n", "shop"}, 0);
  EXPECT_EQ(sample["addresses"].get<int>() + static_cast<int>(sample["notChecked"].size()), 15);
  EXPECT_EQ(sample["endpoints"], 0);
}

// Exit code 0 means that connections were checked.
TEST_F(CheckTest, NothingToCheckIsAnError) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const CommandResult none = Ctl({"check", "-n", "other"});
  EXPECT_EQ(none.exit.code, 1);
  EXPECT_THAT(none.err, HasSubstr("error: nothing was checked: the agent stores no Service with an "
                                  "address in namespace other"));
  // A namespace without addresses cannot connect to any Service.
  auto empty = NetNs::Create();
  ASSERT_OK(empty.status());
  const Json report = Check({"--netns", empty->path()}, 1);
  EXPECT_EQ(report["addresses"], 0);
  EXPECT_THAT(report["notChecked"][0]["reason"].get<std::string>(),
              HasSubstr("no IPv4 address in network namespace"));
}

TEST_F(CheckTest, FindsAMissingRoute) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const auto ip = [this](const std::string& arguments) {
    return RunOk({.argv = {"sh", "-c", "ip " + arguments}, .netns = &pod_b().netns()});
  };
  const auto v4 = ip("-4 route show default"), v6 = ip("-6 route show default");
  ASSERT_OK(v4.status());
  ASSERT_OK(v6.status());
  ASSERT_OK(ip("-4 route del default && ip -6 route del default").status());
  const Json report = CheckFrom(pod_b(), kDifferent);
  // `pref medium` cannot be set.
  EXPECT_OK(ip("-4 route add " + v4->substr(0, v4->find('\n'))).status());
  EXPECT_OK(ip("-6 route add " + v6->substr(0, v6->find(" metric"))).status());
  EXPECT_THAT(Causes(report), ::testing::Contains("shop/web:tcp clusterIP no-route"));
  EXPECT_THAT(report["differences"][0]["observed"].get<std::string>(), HasSubstr("unreachable"));
}

TEST_F(CheckTest, MissingNamespaceIsAnError) {
  const CommandResult result = Ctl({"check", "--netns", "no-such-namespace"});
  EXPECT_EQ(result.exit.code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("error: --netns: Invalid value: \"no-such-namespace\": open network "
                        "namespace /run/netns/no-such-namespace"));
}

TEST_F(CheckTest, FindsADropRuleOfAnotherTable) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb), Web("shop/other", ClusterIp(11))} +
                          WebSlices("shop/web", {&pod_a()}) +
                          WebSlices("shop/other", {&remote_pod()})));
  ASSERT_OK(RunNft(node().netns(),
                   absl::StrCat("table inet firewall { chain forward {\n",
                                "type filter hook forward priority 0;\n", "ct state invalid drop\n",
                                "ip daddr 192.0.2.1 drop\n", "ip daddr ", pod_a().v4(),
                                " tcp dport 8080 drop\n}\n}\n")));
  const Json report = CheckFrom(pod_b(), kDifferent);
  EXPECT_THAT(Causes(report),
              ::testing::UnorderedElementsAre("shop/web:tcp clusterIP foreign-rule",
                                              "shop/web:tcp endpoint foreign-rule"));
  const std::string text = report["differences"][0]["cause"]["text"];
  EXPECT_THAT(text, HasSubstr(absl::StrCat("ip daddr ", pod_a().v4(), " tcp dport 8080 drop")));
  EXPECT_THAT(text, HasSubstr("inet firewall forward"));
  EXPECT_THAT(text, Not(HasSubstr("192.0.2.1")));
  EXPECT_THAT(text, Not(HasSubstr("invalid")));
  ASSERT_OK(RunNft(node().netns(), "delete table inet firewall"));
  CheckFrom(pod_b(), 0);
}

// svcmap's image contains iptables but not nft.
TEST_F(CheckTest, FindsAnIptablesRuleWithoutNft) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  ASSERT_OK(RunOk({.argv = {"iptables-nft", "-A", "OUTPUT", "-d", pod_a().v4(), "-p", "tcp",
                            "--dport", "8080", "-j", "DROP"},
                   .netns = &node().netns()}));
  const absl::StatusOr<CommandResult> result =
      RunCommand({.argv = {"unshare", "--mount", "sh", "-c",
                           "mount --bind /dev/null /usr/sbin/nft && exec \"$@\"", "sh",
                           SVCMAP_BIN_DIR "/svcmapctl", "check", "--probe-timeout", "300ms",
                           "--address", agent().socket()},
                  .netns = &node().netns()});
  ASSERT_OK(RunNft(node().netns(), "delete table ip filter"));
  ASSERT_OK(result);
  EXPECT_EQ(result->exit.code, kDifferent);
  EXPECT_THAT(result->out,
              HasSubstr(absl::StrCat(
                  "foreign-rule: a rule of other software matches: \"-A OUTPUT -d ", pod_a().v4(),
                  "/32 -p tcp -m tcp --dport 8080 -j DROP\" in "
                  "chain iptables-nft filter OUTPUT")));
  EXPECT_THAT(result->err, HasSubstr("note: nft not found"));
}

// Another process deletes elements again whenever the agent has restored them.
TEST_F(CheckTest, FindsAMissingElement) {
  ASSERT_OK(agent().Apply({AService("shop/web").ClusterIp(kWeb.v4).Port("http", 80),
                           ASlice("shop/web").Endpoint(pod_a().v4()).Port("http", 8080)}));
  ASSERT_OK_AND_ASSIGN(auto storm, ForeignStorm::Start(node().netns(), 5000));
  Json report;
  const absl::Status found = Eventually("the check finds the missing element", [&] {
    const CommandResult result =
        Ctl({"check", "--no-endpoints", "-o", "json", "--probe-timeout", "100ms"});
    report = Json::parse(result.out, nullptr, false);
    return result.exit.code == kDifferent &&
           Causes(report) == std::vector<std::string>{"shop/web:http clusterIP kernel-state"};
  });
  storm.reset();
  ASSERT_OK(found) << report.dump(2);
  EXPECT_THAT(report["differences"][0]["cause"]["text"].get<std::string>(),
              HasSubstr("10.96.0.10 . tcp . 80 in service-ips is missing"));
  EXPECT_OK(Eventually("the element is restored", [&] {
    return agent().CheckServing().ok() && Ctl({"check"}).exit.code == 0;
  }));
}

// A direct connect() fails with EINVAL if a blackhole route leads to the destination.
TEST_F(CheckTest, FindsABlackholeRoute) {
  constexpr char kAddress[] = "10.244.1.250";
  ASSERT_OK(agent().Apply(Objects{AService("shop/web").ClusterIp(kWeb.v4).Port("http", 80),
                                  ASlice("shop/web").Endpoint(kAddress).Port("http", 8080)}));
  ASSERT_OK(
      RunOk({.argv = {"ip", "route", "add", "blackhole", kAddress}, .netns = &node().netns()}));
  const Json report = Check({}, kDifferent);
  EXPECT_THAT(Causes(report),
              ::testing::UnorderedElementsAre("shop/web:http clusterIP dead-endpoint",
                                              "shop/web:http endpoint dead-endpoint"))
      << report.dump(2);
  // The kernel drops translated packets without an error.
  EXPECT_EQ(report["differences"][0]["observed"], "no answer within 300ms");
  EXPECT_EQ(report["differences"][1]["observed"],
            "unreachable: a blackhole route leads to the destination");
  EXPECT_THAT(report["notChecked"], IsEmpty());
  ASSERT_OK(
      RunOk({.argv = {"ip", "route", "delete", "blackhole", kAddress}, .netns = &node().netns()}));
}

// The node sends packets to the pod through a second interface, so the reverse path filter of the
// first interface drops the packets of the pod.
TEST_F(CheckTest, FindsAReversePathFilter) {
  const Host& pod = *world()->cast.at("P");
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&remote_pod()})));
  const auto ip = [](const Host& host, const std::string& batch) {
    return RunOk({.argv = {"ip", "-batch", "-"}, .netns = &host.netns(), .stdin_text = batch})
        .status();
  };
  ASSERT_OK(ip(node(), absl::StrCat("link add second type veth peer name eth1 netns ",
                                    pod.netns().path(), "\nlink set second up\n")));
  ASSERT_OK(ip(pod, "link set eth1 up\n"));
  ASSERT_OK(pod.netns().WriteSysctl("net/ipv4/conf/eth1/rp_filter", "0"));
  ASSERT_OK(node().netns().WriteSysctl("net/ipv4/conf/second/rp_filter", "0"));
  ASSERT_OK(ip(node(), absl::StrCat("route replace ", pod.v4(), "/32 dev second\n")));
  const std::string filter = absl::StrCat("net/ipv4/conf/", pod.device(), "/rp_filter");
  CheckFrom(pod, 0);
  ASSERT_OK(node().netns().WriteSysctl(filter, "1"));
  const Json report = CheckFrom(pod, kDifferent);
  ASSERT_OK(node().netns().WriteSysctl(filter, "0"));
  ASSERT_OK(ip(node(), absl::StrCat("route replace ", pod.v4(), "/32 dev ", pod.device(),
                                    "\nlink delete second\n")));
  EXPECT_THAT(Causes(report), ::testing::UnorderedElementsAre("shop/web:tcp clusterIP rp-filter",
                                                              "shop/web:tcp endpoint rp-filter"));
  EXPECT_THAT(report["differences"][0]["cause"]["text"].get<std::string>(),
              HasSubstr("strict on " + pod.device()));
  CheckFrom(pod, 0);
}

TEST_F(CheckTest, FindsAWrongConntrackEntry) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  CommandResult result;
  Json report;
  WithFlow(40000, kWeb, pod_a().v4(), [&] {
    WithFlow(40001, kWeb, "10.244.1.250", [&] { std::tie(result, report) = Report({}); });
  });
  EXPECT_EQ(result.exit.code, kDifferent) << result.out << result.err;
  ASSERT_THAT(Causes(report), ::testing::ElementsAre("shop/web:udp clusterIP conntrack-entry"));
  EXPECT_THAT(report["differences"][0]["cause"]["text"].get<std::string>(),
              HasSubstr(absl::StrCat(pod_b().v4(), ":40001/UDP leads to 10.244.1.250:8080/UDP")));
  ASSERT_OK(FlushConntrack(node().netns()));
  Check({}, 0);
}

TEST_F(CheckTest, MigrateCheckReportsAClusterIpThatIsAnAddressOfTheNode) {
  constexpr int kAttention = 8;
  const Address of_node = {.v4 = node().v4(), .v6 = node().v6()};
  ASSERT_OK(agent().Apply({Web("shop/web", of_node)}));
  const CommandResult result = Ctl({"migrate", "check"});
  EXPECT_EQ(result.exit.code, kAttention) << result.err;
  EXPECT_THAT(result.out, HasSubstr("ATTENTION  Service shop/web: spec.clusterIP: Invalid value: " +
                                    node().v4() + ": must not be an address of a node"));
}

}  // namespace
}  // namespace svcmap::testing
