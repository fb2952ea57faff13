// Tests the compared implementation "kube-proxy" with scripts that simulate kubectl and kube-proxy.
#include "tests/bench/opponents/kube_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <optional>

#include "proxy/names/kube_names.h"
#include "tests/bench/opponents/kube_proxy_rules.h"
#include "tests/bench/opponents/nftables.h"
#include "tests/support/echo_server.h"
#include "tests/support/packet_test.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kId[] = "bench-test";
constexpr uint16_t kApiPort = 6443;

// The fake kubectl records its input. The file `pending` contains the rules that the fake
// kube-proxy programs after the next change.
constexpr char kKubectl[] = R"(#!/bin/bash
cd "$STAND_IN"
echo "$*" >> kubectl.arguments
case "$*" in
  *"config view"*) cat kubeconfig ;;
  *apply*|*delete*) cat >> kubectl.input; [ -e pending ] && mv pending rules ;;
esac
exit 0
)";

// The fake kube-proxy connects to its API server. If the file `die` exists, the fake kube-proxy
// exits with an error. If the file `rules` exists, the fake kube-proxy loads this file with nft
// after 0.3 s.
constexpr char kStandInKubeProxy[] = R"(#!/bin/bash
cd "$STAND_IN"
echo "$*" > kube-proxy.arguments
config=${*#*--kubeconfig=}
url=$(sed -n 's/^ *server: *//p' "${config%% *}")
exec 3<> "/dev/tcp/127.0.0.1/${url##*:}"
read -r -u 3 answer
echo "$url $answer" > api.answer
exec 4<> never
while :; do
  if [ -e die ]; then echo "Error: no luck today" >&2; exit 3; fi
  if [ -e rules ]; then sleep 0.3; nft -f rules; rm rules; fi
  read -t 0.01 -u 4  # Waits without a child.
done
)";

class KubeProxyTest : public testing::PacketTest {
 protected:
  void SetUp() override {
    PacketTest::SetUp();
    if (topology_ == nullptr) return;
    ASSERT_OK_AND_ASSIGN(testing::TemporaryFolder folder, testing::TemporaryFolder::Make());
    folder_.emplace(std::move(folder));
    ASSERT_EQ(::mkfifo(File("never").c_str(), 0600), 0);
    Write("kubectl", kKubectl);
    Write("kube-proxy", kStandInKubeProxy);
    Write("kubeconfig", "clusters:\n- name: test\n  cluster:\n    server: http://127.0.0.1:6443\n");
    ASSERT_OK_AND_ASSIGN(testing::NetNs outside, testing::NetNs::Create());
    outside_.emplace(std::move(outside));
    ASSERT_OK_AND_ASSIGN(api_server_, testing::EchoServer::Start(*outside_));
    ASSERT_OK(api_server_->Listen({.ip = "127.0.0.1", .port = kApiPort, .name = "api"}));
    old_path_ = ::getenv("PATH");
    ::setenv("PATH", (folder_->path() + ":" + old_path_).c_str(), 1);
    ::setenv("STAND_IN", folder_->path().c_str(), 1);
  }
  void TearDown() override {
    if (!old_path_.empty()) ::setenv("PATH", old_path_.c_str(), 1);
  }

  std::string File(const std::string& name) const { return folder_->path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(File(name)) << text;
    ::chmod(File(name).c_str(), 0755);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(File(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  absl::StatusOr<std::unique_ptr<Opponent>> Make(std::chrono::seconds limit) {
    return MakeKubeProxy(
        node(),
        {.time_limit = limit, .kube_proxy = File("kube-proxy"), .kubeconfig = File("kubeconfig")},
        kId);
  }

  static std::vector<ServicePort> Renamed(const Cluster& cluster) {
    std::vector<ServicePort> ports;
    for (const ServicePort& port : cluster.ports()) ports.push_back(InApiServer(kId, port));
    return ports;
  }
  // Sets the rules that the fake kube-proxy programs after the next change.
  void Pend(const std::string& rules) { Write("pending", rules); }
  void PendChange(const Cluster& cluster, ClusterChange change) {
    for (auto* port : {&change.before, &change.after}) {
      if (*port) *port = InApiServer(kId, **port);
    }
    Pend(NftablesChange(TopologyNode(Family::kIpv4), Renamed(cluster), {change}).transaction);
  }
  bool Programmed(const ServicePort& port) const {
    const absl::StatusOr<bool> programmed =
        IsProgrammed(node(), KubeProxyMode::kNftables, InApiServer(kId, port));
    return programmed.ok() && *programmed;
  }

  const testing::NetNs& node() const { return topology_->node().netns(); }

  // Runs `test` in a network namespace that simulates the network of this machine.
  void Outside(const std::function<void()>& test) { outside_->Run(test); }

  std::optional<testing::TemporaryFolder> folder_;
  std::optional<testing::NetNs> outside_;
  std::unique_ptr<testing::EchoServer> api_server_;
  std::string old_path_;
};

TEST_F(KubeProxyTest, LoadAndChangeEndWhenTheKernelHasIt) {
  Outside([&] {
    Cluster cluster({.services = 7, .endpoints = 3});
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Opponent> opponent, Make(std::chrono::seconds(30)));
    Pend(NftablesFullSync(TopologyNode(Family::kIpv4), Renamed(cluster)));
    ASSERT_OK_AND_ASSIGN(Cost cost, opponent->Load(cluster));
    EXPECT_GE(cost.seconds, 0.3);
    EXPECT_GT(cost.peak_rss_kib, 0);
    EXPECT_GE(cost.cpu_seconds, 0);  // CPU time is measured in ticks of 10 ms, so it is often 0.
    EXPECT_TRUE(Programmed(cluster.ports()[0]));
    EXPECT_GT(opponent->Memory().rss_kib, 0) << "it still runs";

    const auto change = [&](const ClusterChange& made) {
      PendChange(cluster, made);
      ASSERT_OK_AND_ASSIGN(cost, opponent->Change(cluster, {made}));
      EXPECT_GE(cost.seconds,
                // The expected minimum is below 0.3 s, because the exit of kubectl may be detected
                // late.
                0.2);
      EXPECT_LT(cost.seconds, 10);
    };
    change(cluster.ReplaceEndpoint(2));
    EXPECT_TRUE(Programmed(cluster.ports()[2]));
    change(cluster.AddEndpoint(2));
    EXPECT_TRUE(Programmed(cluster.ports()[2]));
    while (!cluster.ports()[3].endpoints.empty()) change(cluster.RemoveEndpoint(3));
    EXPECT_TRUE(Programmed(cluster.ports()[3]));
    change(cluster.AddService(2));
    EXPECT_TRUE(Programmed(cluster.ports().back()));
    const ServicePort last = cluster.ports().back();
    change(cluster.RemoveLastService());
    EXPECT_FALSE(Programmed(last));
  });
}

TEST_F(KubeProxyTest, ReachesTheApiServerThroughAForwarder) {
  Outside([&] {
    Cluster cluster({.services = 1, .endpoints = 1});
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Opponent> opponent, Make(std::chrono::seconds(30)));
    Pend(NftablesFullSync(TopologyNode(Family::kIpv4), Renamed(cluster)));
    ASSERT_OK(opponent->Load(cluster));
    EXPECT_THAT(Read("api.answer"), AllOf(HasSubstr("http://127.0.0.1:"), HasSubstr(" api 127.")));
    EXPECT_THAT(Read("api.answer"), Not(HasSubstr(":6443 ")));
    EXPECT_THAT(Read("kube-proxy.arguments"),
                AllOf(HasSubstr("--proxy-mode=nftables"), HasSubstr("--hostname-override=node-0")));
  });
}

TEST_F(KubeProxyTest, ObjectsAreMadeUnderALabelAndDeletedByIt) {
  Outside([&] {
    Cluster cluster({.services = 3, .endpoints = 2});
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Opponent> opponent, Make(std::chrono::seconds(30)));
    Pend(NftablesFullSync(TopologyNode(Family::kIpv4), Renamed(cluster)));
    ASSERT_OK(opponent->Load(cluster));
    const std::string objects = Read("kubectl.input");
    for (const char* part :
         {"\"kind\":\"Namespace\",\"metadata\":{\"name\":\"bench-test-namespace-0\"",
          "\"svcmap-bench\": \"bench-test\"", "\"kind\": \"Node\"", "\"kind\": \"Service\"",
          "\"namespace\": \"bench-test-namespace-2\"", "\"clusterIP\": \"10.96.0.1\"",
          "\"kind\": \"EndpointSlice\"", "\"addressType\": \"IPv4\"", "\"11.0.0.1\""}) {
      EXPECT_THAT(objects, HasSubstr(part));
    }
    EXPECT_THAT(Read("kubectl.arguments"), Not(HasSubstr("delete")));
    opponent.reset();
    EXPECT_THAT(
        Read("kubectl.arguments"),
        AllOf(HasSubstr("delete services,endpointslices.discovery.k8s.io --all-namespaces "
                        "-l svcmap-bench=bench-test\n"),
              HasSubstr("delete namespaces,nodes --wait=false -l svcmap-bench=bench-test\n")));
  });
}

TEST_F(KubeProxyTest, ADeadProcessIsReportedWithItsLastWords) {
  Outside([&] {
    Cluster cluster({.services = 1, .endpoints = 1});
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Opponent> opponent, Make(std::chrono::seconds(30)));
    Write("die", "");
    const absl::Status status = opponent->Load(cluster).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("no luck today"));
  });
}

TEST_F(KubeProxyTest, TheTimeLimitHolds) {
  Outside([&] {
    Cluster cluster({.services = 2, .endpoints = 1});
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Opponent> opponent, Make(std::chrono::seconds(2)));
    const absl::Status status = opponent->Load(cluster).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  });
}

TEST_F(KubeProxyTest, SaysWhatItCannotDo) {
  Outside([&] {
    Cluster mixed({.services = 3, .endpoints = 1, .mix = Mix::kMixed});
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Opponent> opponent, Make(std::chrono::seconds(2)));
    EXPECT_EQ(opponent->Load(mixed).status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(opponent->Resync(mixed).status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(MakeKubeProxy(node(), OpponentSettings()).status().code(),
              absl::StatusCode::kFailedPrecondition);
  });
}

TEST_F(KubeProxyTest, IptablesRulesAreReadByTheirComments) {
  Cluster cluster({.services = 2, .endpoints = 2});
  const ServicePort& port = cluster.ports()[0];
  const auto programmed = [&](const ServicePort& what) {
    const absl::StatusOr<bool> held = IsProgrammed(node(), KubeProxyMode::kIptables, what);
    return held.ok() && *held;
  };
  const auto restore = [&](const std::string& rules) {
    ASSERT_OK(testing::RunOk(
        {.argv = {"iptables-restore", "--noflush"}, .netns = &node(), .stdin_text = rules}));
  };
  ServicePort empty = cluster.ports()[1];
  empty.endpoints.clear();
  EXPECT_FALSE(programmed(port));
  EXPECT_FALSE(programmed(empty));
  // Program the rules of kube-proxy, at first without one of the endpoints.
  const std::string chain = "KUBE-SVC-" + proxy::KubeServiceHash(port.Key(), "http", port.protocol);
  const std::string rule = "-A " + chain + " -m comment --comment \"" + port.Text() + " -> ";
  restore("*nat\n:" + chain + " - [0:0]\n" + rule + "11.0.0.1:8080\" -j RETURN\nCOMMIT\n");
  EXPECT_FALSE(programmed(port));
  restore("*nat\n" + rule + "11.0.0.2:8080\" -j RETURN\nCOMMIT\n");
  EXPECT_TRUE(programmed(port));
  restore("*nat\n" + rule + "11.0.0.3:8080\" -j RETURN\nCOMMIT\n");
  EXPECT_FALSE(programmed(port)) << "one too many";
  restore("*filter\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -m comment --comment \"" +
          empty.Text() + " has no endpoints\" -d 10.96.0.2 -j REJECT\nCOMMIT\n");
  EXPECT_TRUE(programmed(empty));
  ASSERT_OK_AND_ASSIGN(const bool gone, IsGone(node(), KubeProxyMode::kIptables, empty));
  EXPECT_FALSE(gone);
}

}  // namespace
}  // namespace svcmap::bench
