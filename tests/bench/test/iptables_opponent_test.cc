// Tests that send real packets through the rules of "iptables-legacy" and "iptables-nft".

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/names/kube_names.h"
#include "tests/bench/opponents/iptables.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/packet_test.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

using testing::Answer;
using testing::Ask;
using testing::Binding;
using testing::EchoServer;
using testing::Host;
using testing::NetNs;
using testing::Outcome;

// iptables variant ("legacy" or "nft") and address family.
using IptablesKind = std::tuple<std::string, Family>;

std::string KindName(const ::testing::TestParamInfo<IptablesKind>& info) {
  return absl::StrCat(std::get<0>(info.param),
                      std::get<1>(info.param) == Family::kIpv4 ? "_IPv4" : "_IPv6");
}

// Parsed output of iptables-save: the rules of each chain in order, without counters.
using SavedChains = std::map<std::string, std::vector<std::string>>;

class IptablesOpponentTest : public testing::PacketTest,
                             public ::testing::WithParamInterface<IptablesKind> {
 protected:
  bool legacy() const { return std::get<0>(GetParam()) == "legacy"; }
  Family family() const { return std::get<1>(GetParam()); }
  bool v6() const { return family() == Family::kIpv6; }

  void SetUp() override {
    PacketTest::SetUp();
    if (topology_ == nullptr) return;
    ASSERT_OK_AND_ASSIGN(pods_, topology_->AddLocalPod("pods"));
    ASSERT_OK_AND_ASSIGN(client_, topology_->AddClient("client"));
    for (const std::string& prefix : EndpointPrefixes(family())) {
      ASSERT_OK(topology_->AddPrefix(*pods_, prefix));
    }
    ASSERT_OK_AND_ASSIGN(server_, EchoServer::Start(pods_->netns()));
    ASSERT_OK_AND_ASSIGN(opponent_, MakeIptables(legacy(), topology_->node().netns(), {}));
  }

  // Starts a server for each endpoint that has no server yet. Each server answers with its address.
  void Serve(const Cluster& cluster) {
    for (const ServicePort& port : cluster.ports()) {
      for (const BenchEndpoint& endpoint : port.endpoints) {
        const std::string ip = endpoint.address.ip.ToString();
        if (!served_.insert(ip).second) continue;
        ASSERT_OK(server_->Listen(Binding{.ip = ip, .port = endpoint.address.port, .name = ip}));
      }
    }
  }

  Answer AskService(const ServicePort& port) const {
    return Ask(client_->netns(), {.destination = port.cluster_ip.ToString(), .port = port.port});
  }

  // Opens 40 connections and returns the number of connections that reached each endpoint.
  std::map<std::string, int> Reached(const ServicePort& port) const {
    return testing::AskMany(client_->netns(),
                            {.destination = port.cluster_ip.ToString(), .port = port.port}, 40)
        .by_server;
  }

  absl::StatusOr<SavedChains> Save(const NetNs& netns) const {
    SavedChains chains;
    for (const char* table : {"filter", "nat", "mangle"}) {
      absl::StatusOr<std::string> text =
          testing::RunOk({.argv = {absl::StrCat(v6() ? "ip6tables" : "iptables", "-",
                                                std::get<0>(GetParam()), "-save"),
                                   "-t", table},
                          .netns = &netns});
      if (!text.ok()) return text.status();
      const std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
      for (const std::string& line : lines) {
        const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
        if (line[0] == ':') chains[absl::StrCat(table, " ", words[0].substr(1))];
        if (line[0] == '-') chains[absl::StrCat(table, " ", words[1])].push_back(words[2]);
      }
    }
    return chains;
  }

  // Returns the rules after the compared implementation has loaded the cluster on a new node.
  absl::StatusOr<SavedChains> SaveOfFresh(const Cluster& cluster) const {
    absl::StatusOr<NetNs> netns = NetNs::Create();
    if (!netns.ok()) return netns.status();
    auto fresh = MakeIptables(legacy(), *netns, {});
    if (!fresh.ok()) return fresh.status();
    if (auto cost = (*fresh)->Load(cluster); !cost.ok()) return cost.status();
    return Save(*netns);
  }

  const Host* pods_ = nullptr;
  const Host* client_ = nullptr;
  std::unique_ptr<EchoServer> server_;
  std::set<std::string> served_;
  std::unique_ptr<Opponent> opponent_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, IptablesOpponentTest,
                         ::testing::Combine(::testing::Values("legacy", "nft"),
                                            ::testing::ValuesIn(kFamilies)),
                         KindName);

TEST_P(IptablesOpponentTest, S74_AConnectionArrivesAtAnEndpointOfItsService) {
  Cluster cluster({.services = 5, .endpoints = 2, .family = family(), .mix = Mix::kMixed});
  Serve(cluster);
  ASSERT_OK_AND_ASSIGN(const Cost cost, opponent_->Load(cluster));
  EXPECT_GT(cost.seconds, 0);
  EXPECT_GT(cost.cpu_seconds, 0);
  EXPECT_GT(cost.peak_rss_kib, 500);

  for (const ServicePort& port : cluster.ports()) {
    const Answer answer = AskService(port);
    EXPECT_EQ(answer.outcome, Outcome::kAnswered) << port.Text() << ": " << answer;
    EXPECT_TRUE(answer.server == port.endpoints[0].address.ip.ToString() ||
                answer.server == port.endpoints[1].address.ip.ToString())
        << answer;
    EXPECT_NE(answer.seen_ip, client_->address(v6())) << "the client is not of the cluster";
  }
  EXPECT_EQ(Reached(cluster.ports()[0]).size(), 2U);
  EXPECT_EQ(Reached(cluster.ports()[3]).size(), 1U) << "it has affinity (S-234)";
}

TEST_P(IptablesOpponentTest, S236_AfterAChangeTheNewEndpointAnswersAndTheOldDoesNot) {
  Cluster cluster({.services = 3, .endpoints = 2, .family = family()});
  Serve(cluster);
  ASSERT_OK(opponent_->Load(cluster));
  const ClusterChange change = cluster.ReplaceEndpoint(1);
  Serve(cluster);
  ASSERT_OK(opponent_->Change(cluster, {change}));

  const std::map<std::string, int> reached = Reached(cluster.ports()[1]);
  EXPECT_TRUE(reached.contains(change.after->endpoints[0].address.ip.ToString()));
  EXPECT_FALSE(reached.contains(change.before->endpoints[0].address.ip.ToString()));
  EXPECT_EQ(reached.size(), 2U);
  EXPECT_EQ(Reached(cluster.ports()[0]).size(), 2U) << "the others go on";
}

TEST_P(IptablesOpponentTest, S77_AServiceWithoutEndpointsRejects) {
  Cluster cluster({.services = 2, .endpoints = 1, .family = family()});
  Serve(cluster);
  ASSERT_OK(opponent_->Load(cluster));
  ASSERT_EQ(AskService(cluster.ports()[0]).outcome, Outcome::kAnswered);
  const ClusterChange change = cluster.RemoveEndpoint(0);
  ASSERT_OK(opponent_->Change(cluster, {change}));

  const Answer answer = AskService(cluster.ports()[0]);
  EXPECT_EQ(answer.outcome, Outcome::kRejected) << answer;
  EXPECT_TRUE(answer.PortUnreachable()) << answer;
  EXPECT_EQ(AskService(cluster.ports()[1]).outcome, Outcome::kAnswered);
}

TEST_P(IptablesOpponentTest, S78_NodePortsWorkAndAreMasqueraded) {
  Cluster cluster({.services = 3, .endpoints = 2, .family = family(), .mix = Mix::kMixed});
  Serve(cluster);
  ASSERT_OK(opponent_->Load(cluster));
  const ServicePort& port = cluster.ports()[2];
  ASSERT_NE(port.node_port, 0);
  const Answer answer = Ask(
      client_->netns(), {.destination = topology_->node().address(v6()), .port = port.node_port});
  EXPECT_EQ(answer.outcome, Outcome::kAnswered) << answer;
  EXPECT_NE(answer.seen_ip, client_->address(v6()));
}

TEST_P(IptablesOpponentTest, S97_AnEndpointReachesItselfByAnotherAddress) {
  Cluster cluster({.services = 1, .endpoints = 1, .family = family()});
  Serve(cluster);
  ASSERT_OK(opponent_->Load(cluster));
  const ServicePort& port = cluster.ports()[0];
  const std::string own = port.endpoints[0].address.ip.ToString();
  const Answer answer =
      Ask(pods_->netns(),
          {.destination = port.cluster_ip.ToString(), .port = port.port, .source = own});
  EXPECT_EQ(answer.outcome, Outcome::kAnswered) << answer;
  EXPECT_EQ(answer.server, own);
  EXPECT_NE(answer.seen_ip, own);
}

TEST_P(IptablesOpponentTest, S236_PartialSyncsLeaveWhatAFullSyncWrites) {
  Cluster cluster({.services = 12, .endpoints = 3, .family = family(), .mix = Mix::kEverything});
  const NetNs& node = topology_->node().netns();
  ASSERT_OK(opponent_->Load(cluster));

  const auto compare = [&](const std::string& what) {
    absl::StatusOr<SavedChains> after = Save(node);
    absl::StatusOr<SavedChains> fresh = SaveOfFresh(cluster);
    ASSERT_OK(after);
    ASSERT_OK(fresh);
    EXPECT_EQ(*after, *fresh) << what;
  };
  const auto change = [&](const std::string& what, const std::vector<ClusterChange>& changes) {
    ASSERT_OK(opponent_->Change(cluster, changes)) << what;
    compare(what);
  };
  compare("load");
  change("replace", {cluster.ReplaceEndpoint(0)});
  change("add", {cluster.AddEndpoint(1)});
  change("remove", {cluster.RemoveEndpoint(2)});
  change("no local endpoint left, then none at all",
         {cluster.RemoveEndpoint(3), cluster.RemoveEndpoint(3), cluster.RemoveEndpoint(3)});
  change("back again", {cluster.AddEndpoint(3)});
  change("source ranges", {cluster.ChangeSourceRanges(4)});
  change("new Service", {cluster.AddService(4)});
  change("several at once", {cluster.ReplaceEndpoint(5), cluster.AddEndpoint(6),
                             cluster.AddService(2), cluster.ReplaceEndpoint(5)});
  change("deleted Service", {cluster.RemoveLastService()});
  change("nothing", {});
  ASSERT_OK(opponent_->Resync(cluster));
  compare("full sync");
}

TEST_P(IptablesOpponentTest, S235_LargeClustersCleanUpAtTheFirstSyncAndThenSeldom) {
  Cluster cluster({.services = 101, .endpoints = 10, .family = family()});
  Serve(cluster);
  ASSERT_OK(opponent_->Load(cluster));
  const ClusterChange change = cluster.ReplaceEndpoint(0);
  Serve(cluster);
  ASSERT_OK(opponent_->Change(cluster, {change}));
  EXPECT_EQ(Reached(cluster.ports()[0]).count(change.before->endpoints[0].address.ip.ToString()),
            0U);

  const std::string stale = absl::StrCat(
      "nat KUBE-SEP-",
      proxy::KubeEndpointHash(change.before->Key(), change.before->port_name,
                              change.before->protocol, change.before->endpoints[0].address));
  ASSERT_OK_AND_ASSIGN(const SavedChains saved, Save(topology_->node().netns()));
  EXPECT_TRUE(saved.contains(stale)) << "30 s are not over yet";
}

TEST(IptablesOpponentLimitTest, ACallThatTakesTooLongEndsWithDeadlineExceeded) {
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<Opponent> opponent,
      MakeIptables(/*legacy=*/true, netns, {.time_limit = std::chrono::seconds(0)}));
  EXPECT_EQ(opponent->Load(Cluster({.services = 10, .endpoints = 10})).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(IptablesOpponentLimitTest, WithoutTheProgramThereIsNoOpponent) {
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const absl::Status status = MakeIptables(/*legacy=*/false, netns, {}).status();
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), ::testing::HasSubstr("iptables-nft-restore"));
}

}  // namespace
}  // namespace svcmap::bench
