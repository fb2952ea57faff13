#include "tests/bench/opponents/nftables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <set>

#include "tests/support/chance.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/kernel_check.h"
#include "tests/support/packet_test.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

using testing::Answer;
using testing::Ask;
using testing::EchoServer;
using testing::Host;
using testing::Outcome;
using testing::Request;

// Number of requests, which reach each of three endpoints.
const int kAsks = testing::TriesToReachAll(3);

class NftablesOpponentTest : public testing::PacketTest {
 protected:
  void SetUp() override {
    PacketTest::SetUp();
    if (topology_ == nullptr) return;
    ASSERT_OK_AND_ASSIGN(pods_, topology_->AddLocalPod("pods"));
    ASSERT_OK_AND_ASSIGN(client_, topology_->AddClient("client"));
    for (const std::string& prefix : EndpointPrefixes(Family::kIpv4)) {
      ASSERT_OK(topology_->AddPrefix(*pods_, prefix));
    }
    ASSERT_OK_AND_ASSIGN(server_, EchoServer::Start(pods_->netns()));
  }

  void MakeOpponentOf(Cluster& cluster) {
    ASSERT_OK_AND_ASSIGN(opponent_,
                         MakeNftables(/*plain_single=*/false, node(), OpponentSettings()));
    ASSERT_OK(opponent_->Load(cluster));
  }

  // Starts a server for each endpoint of `port`. Each server answers with its address.
  void Serve(const ServicePort& port) {
    for (const BenchEndpoint& endpoint : port.endpoints) {
      const std::string ip = endpoint.address.ip.ToString();
      if (!served_.insert(ip).second) continue;
      ASSERT_OK(server_->Listen({.ip = ip, .port = endpoint.address.port, .name = ip}));
    }
  }

  static std::set<std::string> EndpointsOf(const ServicePort& port) {
    std::set<std::string> ips;
    for (const BenchEndpoint& endpoint : port.endpoints) ips.insert(endpoint.address.ip.ToString());
    return ips;
  }

  // Sends several requests and returns the set of endpoints that answered.
  std::set<std::string> AskedMany(const std::string& ip, uint16_t port) {
    std::set<std::string> servers;
    for (int i = 0; i < kAsks; ++i) {
      const Answer answer = Ask(client_->netns(), {.destination = ip, .port = port});
      servers.insert(answer.outcome == Outcome::kAnswered ? answer.server : answer.ToString());
    }
    return servers;
  }

  const testing::NetNs& node() const { return topology_->node().netns(); }

  const Host* pods_ = nullptr;
  const Host* client_ = nullptr;
  std::unique_ptr<EchoServer> server_;
  std::set<std::string> served_;
  std::unique_ptr<Opponent> opponent_;
};

TEST_F(NftablesOpponentTest, AConnectionArrivesAtAnyEndpointOfItsService) {
  Cluster cluster({.services = 20, .endpoints = 3});
  MakeOpponentOf(cluster);
  const ServicePort& port = cluster.ports()[7];
  Serve(port);
  EXPECT_EQ(AskedMany(port.cluster_ip.ToString(), port.port), EndpointsOf(port));
}

TEST_F(NftablesOpponentTest, Ipv6AndUdp) {
  for (const std::string& prefix : EndpointPrefixes(Family::kIpv6)) {
    ASSERT_OK(topology_->AddPrefix(*pods_, prefix));
  }
  Cluster cluster({.services = 3,
                   .endpoints = 1,
                   .family = Family::kIpv6,
                   .mix = Mix::kMixed,
                   .protocol = proxy::Protocol::kUdp});
  MakeOpponentOf(cluster);
  const ServicePort& port = cluster.ports()[2];
  const std::string endpoint = port.endpoints[0].address.ip.ToString();
  ASSERT_OK(server_->Listen({.protocol = testing::Protocol::kUdp,
                             .ip = endpoint,
                             .port = port.endpoints[0].address.port,
                             .name = "pod"}));
  for (const auto& [ip, number] : {std::pair(port.cluster_ip.ToString(), port.port),
                                   std::pair(std::string(testing::kNodeV6), port.node_port)}) {
    const Answer answer = Ask(
        client_->netns(), {.protocol = testing::Protocol::kUdp, .destination = ip, .port = number});
    EXPECT_EQ(answer.server, "pod") << ip << ": " << answer;
  }
}

TEST_F(NftablesOpponentTest, AReplacedEndpointAnswersInPlaceOfTheOldOne) {
  Cluster cluster({.services = 20, .endpoints = 3});
  MakeOpponentOf(cluster);
  Serve(cluster.ports()[7]);
  const ClusterChange change = cluster.ReplaceEndpoint(7);
  ASSERT_OK_AND_ASSIGN(const Cost cost, opponent_->Change(cluster, {change}));
  EXPECT_GT(cost.seconds, 0);
  EXPECT_GT(cost.peak_rss_kib, 0);
  const ServicePort& port = cluster.ports()[7];
  Serve(port);
  EXPECT_EQ(AskedMany(port.cluster_ip.ToString(), port.port), EndpointsOf(port));
}

TEST_F(NftablesOpponentTest, S77_S82_RejectsWhereThereIsNothingToAnswer) {
  Cluster cluster({.services = 20, .endpoints = 1});
  MakeOpponentOf(cluster);
  const ClusterChange change = cluster.RemoveEndpoint(3);
  ASSERT_OK(opponent_->Change(cluster, {change}));
  const std::string ip = cluster.ports()[3].cluster_ip.ToString();
  EXPECT_TRUE(Ask(client_->netns(), {.destination = ip, .port = 80}).PortUnreachable());
  const std::string other = cluster.ports()[4].cluster_ip.ToString();
  EXPECT_TRUE(Ask(client_->netns(), {.destination = other, .port = 81}).PortUnreachable());
}

TEST_F(NftablesOpponentTest, S78_NodePortsAndLoadBalancerIpsAreMasqueraded) {
  Cluster cluster({.services = 20, .endpoints = 3, .mix = Mix::kMixed});
  MakeOpponentOf(cluster);
  const ServicePort& port = cluster.ports()[11];
  ASSERT_NE(port.node_port, 0);
  Serve(port);
  EXPECT_EQ(AskedMany(testing::kNodeV4, port.node_port), EndpointsOf(port));
  EXPECT_EQ(AskedMany(port.load_balancer_ips[0].ToString(), port.port), EndpointsOf(port));
  const Answer answer =
      Ask(client_->netns(), {.destination = testing::kNodeV4, .port = port.node_port});
  EXPECT_NE(answer.seen_ip, client_->v4()) << answer;
}

TEST_F(NftablesOpponentTest, S123_AffinitySticks) {
  Cluster cluster({.services = 20, .endpoints = 3, .mix = Mix::kMixed});
  MakeOpponentOf(cluster);
  const ServicePort& port = cluster.ports()[13];
  ASSERT_NE(port.affinity_seconds, 0);
  Serve(port);
  EXPECT_THAT(AskedMany(port.cluster_ip.ToString(), port.port), ::testing::SizeIs(1));
}

TEST_F(NftablesOpponentTest, S79_S87_LocalPolicyAndSourceRanges) {
  Cluster cluster({.services = 20, .endpoints = 3, .mix = Mix::kEverything});
  MakeOpponentOf(cluster);
  const ServicePort& open = cluster.ports()[11];
  Serve(open);
  const Answer answer =
      Ask(client_->netns(), {.destination = testing::kNodeV4, .port = open.node_port});
  EXPECT_EQ(answer.server, open.endpoints[0].address.ip.ToString()) << "the one here: " << answer;
  EXPECT_EQ(answer.seen_ip, client_->v4());
  const ServicePort& restricted = cluster.ports()[10];
  ASSERT_FALSE(restricted.source_ranges.empty());
  EXPECT_EQ(Ask(client_->netns(), {.destination = restricted.load_balancer_ips[0].ToString(),
                                   .port = restricted.port,
                                   .timeout = std::chrono::milliseconds(300)})
                .outcome,
            Outcome::kTimedOut);
}

TEST_F(NftablesOpponentTest, S97_OnlyConnectionsToOneselfAreMasqueraded) {
  Cluster cluster({.services = 5, .endpoints = 1});
  NftablesNode node_facts = TopologyNode(Family::kIpv4);
  // Use a cluster CIDR that also contains the endpoints.
  node_facts.cluster_cidr = *IpPrefix::Parse("10.0.0.0/7");
  ASSERT_OK(testing::RunNft(node(), NftablesFullSync(node_facts, cluster.ports())));
  const ServicePort& port = cluster.ports()[0];
  Serve(port);
  const std::string endpoint = port.endpoints[0].address.ip.ToString();
  const Request request{.destination = port.cluster_ip.ToString(), .port = port.port};
  Request to_itself = request;
  to_itself.source = endpoint;
  const Answer hairpin = Ask(pods_->netns(), to_itself);
  EXPECT_EQ(hairpin.server, endpoint) << hairpin;
  EXPECT_NE(hairpin.seen_ip, endpoint);
  ASSERT_OK_AND_ASSIGN(const Host* pod, topology_->AddLocalPod("other"));
  EXPECT_EQ(Ask(pod->netns(), request).seen_ip, pod->v4());
}

// Makes many changes of each kind. Adds and deletes Services, removes all endpoints of Services,
// and adds endpoints again.
std::vector<std::vector<ClusterChange>> ChangeMuch(Cluster& cluster,
                                                   const std::function<void()>& after_each) {
  std::vector<std::vector<ClusterChange>> rounds;
  const auto round = [&](std::vector<ClusterChange> changes) {
    rounds.push_back(std::move(changes));
    after_each();
  };
  for (size_t i = 0; i < 6; ++i) {
    round({cluster.ReplaceEndpoint(i)});
    round({cluster.AddEndpoint(i), cluster.AddEndpoint(i + 1)});
    round({cluster.RemoveEndpoint(i)});
  }
  for (size_t i = 0; i < 11; ++i) {
    while (!cluster.ports()[i].endpoints.empty()) round({cluster.RemoveEndpoint(i)});
  }
  for (size_t i = 0; i < 5; ++i) round({cluster.AddEndpoint(i)});
  if (cluster.shape().mix == Mix::kEverything) {
    for (size_t i : {2, 10}) round({cluster.ChangeSourceRanges(i)});
  }
  for (const int endpoints : {0, 1, 7}) round({cluster.AddService(endpoints)});
  round({cluster.RemoveLastService(), cluster.RemoveLastService()});
  round({cluster.AddService(2), cluster.RemoveLastService()});
  return rounds;
}

TEST_F(NftablesOpponentTest, AfterAnyChangesTheTableIsThatOfAFullSync) {
  for (const Family family : kFamilies) {
    for (const Mix mix : {Mix::kClusterIp, Mix::kMixed, Mix::kEverything}) {
      const NftablesNode facts = TopologyNode(family);
      Cluster cluster({.services = 14, .endpoints = 3, .family = family, .mix = mix});
      ASSERT_OK_AND_ASSIGN(const testing::NetNs netns, testing::NetNs::Create());
      ASSERT_OK(testing::RunNft(netns, NftablesFullSync(facts, cluster.ports())));

      std::vector<std::vector<ServicePort>> states;
      const auto rounds = ChangeMuch(cluster, [&] { states.push_back(cluster.ports()); });
      std::set<std::string> stale;
      for (size_t i = 0; i < rounds.size(); ++i) {
        const NftablesUpdate update = NftablesChange(facts, states[i], rounds[i]);
        ASSERT_OK(testing::RunNft(netns, update.transaction)) << update.transaction;
        for (const std::string& chain : update.filled_chains) stale.erase(chain);
        stale.insert(update.stale_chains.begin(), update.stale_chains.end());
      }
      ASSERT_OK(testing::RunNft(
          netns, NftablesDeleteChains(family, std::vector(stale.begin(), stale.end()))));
      ASSERT_OK_AND_ASSIGN(const testing::Listing changed, testing::ReadListing(netns));

      ASSERT_OK_AND_ASSIGN(const testing::NetNs fresh, testing::NetNs::Create());
      ASSERT_OK(testing::RunNft(fresh, NftablesFullSync(facts, cluster.ports())));
      ASSERT_OK_AND_ASSIGN(const testing::Listing full, testing::ReadListing(fresh));
      EXPECT_EQ(changed.rules, full.rules);
      EXPECT_EQ(changed.elements, full.elements);
      EXPECT_GT(full.elements.size(), 2U);

      ASSERT_OK(testing::RunNft(fresh, NftablesResync(facts, cluster.ports())));
      ASSERT_OK_AND_ASSIGN(const testing::Listing again, testing::ReadListing(fresh));
      EXPECT_EQ(again.rules, full.rules);
      EXPECT_EQ(again.elements, full.elements);
    }
  }
}

TEST_F(NftablesOpponentTest, S341_StaleChainsAreDeletedByALaterChange) {
  Cluster cluster({.services = 5, .endpoints = 1});
  MakeOpponentOf(cluster);
  ASSERT_OK(opponent_->Change(cluster, {cluster.RemoveEndpoint(2)}));
  const auto chain_is_there = [&] {
    const absl::StatusOr<std::string> chains = testing::Nft(node(), "list chains ip");
    return !chains.ok() || chains->find("/service-2/tcp/http") != std::string::npos;
  };
  EXPECT_TRUE(chain_is_there());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (chain_is_there() && std::chrono::steady_clock::now() < deadline) {
    const ClusterChange change = cluster.ReplaceEndpoint(1);
    ASSERT_OK(opponent_->Change(cluster, {change}));
  }
  EXPECT_FALSE(chain_is_there());
  ASSERT_OK(opponent_->Resync(cluster));
}

TEST_F(NftablesOpponentTest, WhatNftRejectsIsReportedInItsWords) {
  Cluster cluster({.services = 5, .endpoints = 1});
  ASSERT_OK_AND_ASSIGN(opponent_, MakeNftables(/*plain_single=*/false, node(), OpponentSettings()));
  const absl::Status status = opponent_->Change(cluster, {cluster.ReplaceEndpoint(0)}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("No such file"));
}

}  // namespace
}  // namespace svcmap::bench
