#include "proxy/conntrack/stale_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "proxy/conntrack/handshake_book.h"
#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StaleConnectionsTest : public ::testing::Test {
 protected:
  StaleConnectionsTest() {
    node_.node_port_addresses = Ips({"192.0.2.1", "2001:db8::1"});
    Apply({AService("ns/web")
               .At("10.96.0.1")
               .At("fd00:96::1")
               .LoadBalancer("198.51.100.1")
               .Port(80, "http")
               .NodePort(30080)
               .Port(3868, "sctp", Protocol::kSctp),
           ASlice("ns/web-1", "ns/web")
               .Port(8080, "http")
               .Port(3868, "sctp", Protocol::kSctp)
               .Endpoint("10.0.0.1", kReady)
               .Endpoint("10.0.0.2", kDownTerminating),
           ASlice("ns/web-2", "ns/web").Port(8081, "http").Endpoint("10.0.0.3", kReady),
           ASlice("ns/web-6", "ns/web", Family::kIpv6)
               .Port(8080, "http")
               .Endpoint("fd01::1", kReady)});
  }
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, ++sequence_);
  }
  bool Stale(std::string_view destination, std::string_view endpoint,
             nft::TransportProtocol protocol = nft::TransportProtocol::kTcp, uint16_t zone = 0) {
    nft::Flow flow = Flow(destination, endpoint, zone);
    flow.protocol = protocol;
    flow.unreplied = unreplied_;
    const auto stale = FindStaleConnections({&flow, 1}, store_, node_);
    if (stale[0] && *stale[0] != kNoService) {
      EXPECT_EQ(stale[0], HashOfService(service_));
    }
    return stale[0].has_value();
  }

  Store store_;
  NodeFacts node_;
  uint64_t sequence_ = 0;
  std::string service_ = "ns/web";
  bool unreplied_ = true;
};

TEST_F(StaleConnectionsTest, S242_S249_AHandshakeWithAnEndpointThatIsGoneIsStale) {
  constexpr auto kSctp = nft::TransportProtocol::kSctp;
  const struct {
    const char* name;
    const char* destination;
    const char* endpoint;
    bool stale;
    nft::TransportProtocol protocol = nft::TransportProtocol::kTcp;
  } cases[] = {
      {"endpoint", "10.96.0.1:80", "10.0.0.1:8080", false},
      {"IPv6 endpoint", "[fd00:96::1]:80", "[fd01::1]:8080", false},
      {"endpoint of another slice", "10.96.0.1:80", "10.0.0.3:8081", false},
      {"endpoint that is not serving", "10.96.0.1:80", "10.0.0.2:8080", false},
      {"gone", "10.96.0.1:80", "10.0.0.9:8080", true},
      {"gone, IPv6", "[fd00:96::1]:80", "[fd01::9]:8080", true},
      {"gone, load balancer IP", "198.51.100.1:80", "10.0.0.9:8080", true},
      {"gone, nodePort", "192.0.2.1:30080", "10.0.0.9:8080", true},
      {"not a nodePort address", "192.0.2.9:30080", "10.0.0.9:8080", false},
      {"another port of the endpoint", "10.96.0.1:80", "10.0.0.1:8081", true},
      {"not a Service port", "10.96.0.1:81", "10.0.0.9:8080", false},
      {"not a Service address", "203.0.113.1:80", "10.0.0.9:8080", false},
      {"SCTP endpoint", "10.96.0.1:3868", "10.0.0.1:3868", false, kSctp},
      {"SCTP, gone", "10.96.0.1:3868", "10.0.0.9:3868", true, kSctp},
      {"SCTP to a TCP port of the endpoint", "10.96.0.1:3868", "10.0.0.1:8080", true, kSctp},
      {"SCTP to a TCP port of the Service", "10.96.0.1:80", "10.0.0.9:8080", false, kSctp},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Stale(c.destination, c.endpoint, c.protocol), c.stale) << c.name;
  }
}

TEST_F(StaleConnectionsTest, S242_AHandshakeWithoutTranslationIsStale) {
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.96.0.1:80"));
  EXPECT_TRUE(Stale("198.51.100.1:80", "198.51.100.1:80"));
  EXPECT_FALSE(Stale("203.0.113.1:80", "203.0.113.1:80")) << "not a Service address";
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.96.0.1:80", nft::TransportProtocol::kTcp, 7))
      << "a virtual switch tracks the packet before translation";
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.9:8080", nft::TransportProtocol::kTcp, 7));
}

// An external IP can be the address of the endpoint.
TEST_F(StaleConnectionsTest, AnEndpointThatIsItsOwnDestinationIsAnEndpoint) {
  Apply({AService("ns/self").At("10.96.0.2").External("10.0.0.7").Port(80),
         ASlice("ns/self-1", "ns/self").Port(80).Endpoint("10.0.0.7", kReady)});
  EXPECT_FALSE(Stale("10.0.0.7:80", "10.0.0.7:80"));
}

TEST_F(StaleConnectionsTest, EndpointsOfOtherServicesDoNotCount) {
  Apply({AService("ns/other").At("10.96.0.2").Port(80),
         ASlice("ns/other-1", "ns/other").Port(8080).Endpoint("10.0.0.9", kReady)});
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.9:8080"));
  EXPECT_FALSE(Stale("10.96.0.2:80", "10.0.0.9:8080"));
}

// Other programs also translate addresses, but not those of a ServiceCIDR.
TEST_F(StaleConnectionsTest, AHandshakeThroughADeletedServiceIsStaleInAServiceCidr) {
  Apply({NoService("ns/web")});
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.0.0.1:8080"));
  Apply({AServiceCidr("kubernetes", {"10.96.0.0/16"})});
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.1:8080"));
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.96.0.1:80")) << "not translated";
  EXPECT_FALSE(Stale("198.51.100.1:80", "10.0.0.1:8080"));
}

TEST_F(StaleConnectionsTest, PortRangesKeepThePort) {
  node_.port_ranges = true;
  Apply({AService("ns/range").At("10.96.0.3").Port(1000, "all").EndPort(2000),
         ASlice("ns/range-1", "ns/range").Port(1, "all").Endpoint("10.0.0.1", kReady)});
  service_ = "ns/range";
  EXPECT_FALSE(Stale("10.96.0.3:1500", "10.0.0.1:1500"));
  EXPECT_TRUE(Stale("10.96.0.3:1500", "10.0.0.1:1501"));
  EXPECT_TRUE(Stale("10.96.0.3:1500", "10.0.0.9:1500"));
  EXPECT_FALSE(Stale("10.96.0.3:2001", "10.0.0.9:2001")) << "outside";
  node_.port_ranges = false;
  EXPECT_FALSE(Stale("10.96.0.3:1500", "10.0.0.9:1500"));
}

// An endpoint that is in a slice is not gone, whatever its conditions and the name of its port.
TEST_F(StaleConnectionsTest, ConnectionsWithRepliesAreStaleOnlyIfTheyAreReset) {
  unreplied_ = false;
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.0.0.9:8080")) << "the option is off";
  node_.reset_stale_tcp = true;
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.0.0.9:8080")) << "no rules";
  node_.tcp_resets = TcpResets::kLoose;
  Apply({AServiceCidr("kubernetes", {"10.96.0.0/16"})});
  const struct {
    const char* name;
    const char* destination;
    const char* endpoint;
    bool stale;
  } cases[] = {
      {"gone", "10.96.0.1:80", "10.0.0.9:8080", true},
      {"gone, nodePort", "192.0.2.1:30080", "10.0.0.9:8080", true},
      {"another port of the endpoint", "10.96.0.1:80", "10.0.0.1:8081", true},
      {"endpoint that is not serving", "10.96.0.1:80", "10.0.0.2:8080", false},
      {"endpoint of another slice", "10.96.0.1:80", "10.0.0.3:8081", false},
      {"not translated", "10.96.0.1:80", "10.96.0.1:80", false},
      {"without a Service, in a ServiceCIDR", "10.96.0.9:80", "10.0.0.9:8080", false},
  };
  for (const auto& c : cases) EXPECT_EQ(Stale(c.destination, c.endpoint), c.stale) << c.name;
  Apply({AService("ns/web").At("10.96.0.1").Port(80, "http").ResetStaleTcp(false)});
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.0.0.9:8080")) << "the Service opts out";
}

// Connections to these destinations may belong to the other Service.
TEST_F(StaleConnectionsTest, DestinationsThatHideOnesOfAnotherServiceAreNotReset) {
  node_.reset_stale_tcp = true;
  node_.tcp_resets = TcpResets::kLoose;
  node_.port_ranges = true;
  Apply({AService("ns/all").At("10.96.0.2").Port(8000).EndPort(9000).External("192.0.2.5"),
         AService("ns/other")
             .At("10.96.0.3")
             .Port(30080, "a")
             .Port(8080, "b")
             .External("192.0.2.1")
             .External("192.0.2.5")});
  service_ = "ns/other";
  for (const bool unreplied : {true, false}) {
    unreplied_ = unreplied;
    EXPECT_TRUE(Stale("10.96.0.3:8080", "10.0.0.9:1"));
    EXPECT_TRUE(Stale("192.0.2.1:8080", "10.0.0.9:1"));
    EXPECT_TRUE(Stale("192.0.2.5:30080", "10.0.0.9:1"));
    EXPECT_EQ(Stale("192.0.2.1:30080", "10.0.0.9:1"), unreplied) << "nodePort of ns/web";
    EXPECT_EQ(Stale("192.0.2.5:8080", "10.0.0.9:1"), unreplied) << "range of ns/all";
  }
  service_ = "ns/all";
  unreplied_ = false;
  EXPECT_FALSE(Stale("10.96.0.2:8500", "10.0.0.9:8500")) << "a port range";
}

nft::Flow Handshake(uint32_t id, std::string_view destination, std::string_view endpoint) {
  nft::Flow flow = Flow(destination, endpoint);
  flow.protocol = nft::TransportProtocol::kTcp;
  flow.unreplied = true;
  flow.id = id;
  return flow;
}

const ServiceHash kWebHash = HashOfService("ns/web"), kOtherHash = HashOfService("ns/other");

class HandshakeBookTest : public ::testing::Test {
 protected:
  // Runs a round that lists these stale handshakes. Returns those that are deleted.
  std::vector<nft::Flow> Round(const std::vector<nft::Flow>& listed) {
    std::vector<nft::Flow> deleted;
    EXPECT_TRUE(book_.Start(now_));
    std::map<uint32_t, nft::Flow> old;
    for (const nft::Flow& flow : book_.Old()) old[flow.id] = flow;
    for (const nft::Flow& flow : listed) {
      const auto found = old.find(flow.id);
      if ((found != old.end() && found->second == flow) || book_.IsReused(flow, kWebHash, now_)) {
        deleted.push_back(flow);
      } else {
        book_.Record(flow, now_);
      }
    }
    book_.Finish();
    return deleted;
  }
  void Wait(int64_t count) { now_ += milliseconds(count); }
  void AddEndpoint(ServiceHash service, std::string_view address) {
    book_.Update({.added = {{service, Ip(address)}}}, now_);
  }

  const nft::Flow one_ = Handshake(1, "10.96.0.1:80", "10.0.0.1:80");
  HandshakeBook::Time now_ = HandshakeBook::Time() + std::chrono::hours(1);
  HandshakeBook book_{milliseconds(1000), milliseconds(4000)};
};

TEST_F(HandshakeBookTest, NothingIsDueWithoutAChange) {
  EXPECT_EQ(book_.due_at(), std::nullopt);
  AddEndpoint(kOtherHash, "10.0.0.1");
  EXPECT_EQ(book_.due_at(), std::nullopt);
  EXPECT_FALSE(book_.Start(now_));
}

// For example, 300 ms are enough for the handshake with a slow endpoint.
TEST_F(HandshakeBookTest, S242_AHandshakeIsDeletedAfterItWasListedTwice) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(1000));
  Wait(999);
  EXPECT_FALSE(book_.Start(now_));
  Wait(1);
  EXPECT_THAT(Round({one_}), ElementsAre(one_));
  EXPECT_EQ(book_.due_at(), std::nullopt);
}

TEST_F(HandshakeBookTest, S242_RoundsStartAtLeastOneSecondApart) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  Wait(600);
  book_.Check();
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(400));
  EXPECT_FALSE(book_.Start(now_));
  Wait(400);
  const nft::Flow two = Handshake(2, "10.96.0.1:80", "10.0.0.1:80");
  EXPECT_THAT(Round({one_, two}), ElementsAre(one_)) << "the other one is younger";
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(1000));
  Wait(1000);
  EXPECT_THAT(Round({two}), ElementsAre(two));
}

TEST_F(HandshakeBookTest, OnlyTheFirstChangeRequiresARound) {
  EXPECT_FALSE(book_.Update({.any = false}, now_));
  EXPECT_TRUE(book_.Update({.any = true}, now_));
  EXPECT_FALSE(book_.Update({.any = true}, now_));
  Round({});
  EXPECT_TRUE(book_.Update({.any = true}, now_));
}

TEST_F(HandshakeBookTest, AHandshakeThatWasRepliedIsForgotten) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  Wait(1000);
  EXPECT_THAT(Round({}), IsEmpty());
  book_.Check();
  Wait(1000);
  EXPECT_THAT(Round({one_}), IsEmpty()) << "another handshake";
}

// The kernel can use an id again.
TEST_F(HandshakeBookTest, AnotherHandshakeWithTheSameIdIsAnotherOne) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  Wait(1000);
  const nft::Flow other = Handshake(1, "10.96.0.1:80", "10.0.0.2:80");
  EXPECT_THAT(Round({other}), IsEmpty());
  Wait(2000);
  EXPECT_THAT(Round({other}), ElementsAre(other));
}

TEST_F(HandshakeBookTest, S242_AHandshakeWithANewEndpointOfAnotherServiceIsDeletedAtOnce) {
  const nft::Flow untranslated = Handshake(2, "10.0.0.1:80", "10.0.0.1:80");
  AddEndpoint(kOtherHash, "10.0.0.1");
  book_.Check();
  EXPECT_THAT(Round({one_, untranslated}), ElementsAre(one_));
  book_.Check();
  now_ += HandshakeBook::kNew;
  EXPECT_THAT(Round({one_}), IsEmpty()) << "the endpoint is not new";
}

// For example, a pod of two Services that leaves one of them first.
TEST_F(HandshakeBookTest, S242_ANewEndpointOfBothServicesIsNotReused) {
  AddEndpoint(kWebHash, "10.0.0.1");
  EXPECT_FALSE(book_.IsReused(one_, kWebHash, now_));
  EXPECT_TRUE(book_.IsReused(one_, kNoService, now_)) << "the Service was deleted";
  AddEndpoint(kOtherHash, "10.0.0.1");
  Wait(999);
  AddEndpoint(kOtherHash, "10.0.0.1");
  EXPECT_FALSE(book_.IsReused(one_, kWebHash, now_));
  Wait(1);
  AddEndpoint(kOtherHash, "10.0.0.1");
  EXPECT_TRUE(book_.IsReused(one_, kWebHash, now_)) << "one second later";
  AddEndpoint(kWebHash, "10.0.0.1");
  EXPECT_FALSE(book_.IsReused(one_, kWebHash, now_));
}

TEST_F(HandshakeBookTest, TheOldestEndpointAddressesAreForgotten) {
  EndpointChanges changes;
  for (size_t i = 0; i <= EndpointEvents<IpAddress>::kMaxEvents; ++i) {
    const std::string end = std::to_string(i / 256 % 256) + "." + std::to_string(i % 256);
    changes.added.emplace_back(kOtherHash, Ip("10.1." + end));
  }
  changes.added.front().second = Ip("10.0.0.1");
  changes.added[1].second = Ip("10.0.0.2");
  changes.added.back().second = Ip("10.0.0.3");
  book_.Update(changes, now_);
  const auto reused = [&](std::string_view endpoint) {
    return book_.IsReused(Handshake(1, "10.96.0.1:80", endpoint), kWebHash, now_);
  };
  EXPECT_FALSE(reused("10.0.0.1:80"));
  EXPECT_TRUE(reused("10.0.0.2:80"));
  EXPECT_TRUE(reused("10.0.0.3:80"));
}

TEST_F(HandshakeBookTest, AFailedRoundIsRepeated) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  Wait(1000);
  EXPECT_TRUE(book_.Start(now_));
  book_.Return();
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(1000));
  Wait(1000);
  EXPECT_THAT(Round({one_}), ElementsAre(one_));
}

// If the kernel still sends handshakes to an endpoint that is gone, the rounds become rare.
TEST_F(HandshakeBookTest, RoundsWithoutAChangeBecomeRare) {
  book_.Check();
  std::vector<int64_t> waits;
  for (uint32_t id = 1; id <= 5; ++id) {
    Round({Handshake(id, "10.96.0.1:80", "10.0.0.1:80")});
    const auto wait = *book_.due_at() - now_;
    waits.push_back(wait / milliseconds(1));
    now_ += wait;
  }
  EXPECT_THAT(waits, ElementsAre(1000, 2000, 4000, 4000, 4000));
  book_.Check();
  Round({Handshake(6, "10.96.0.1:80", "10.0.0.1:80")});
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(1000));
}

TEST_F(HandshakeBookTest, MemoryIsBounded) {
  std::vector<nft::Flow> many;
  for (uint32_t id = 1; id <= HandshakeBook::kMaxHandshakes + 10; ++id) {
    many.push_back(Handshake(id, "10.96.0.1:80", "10.0.0.1:80"));
  }
  book_.Check();
  EXPECT_THAT(Round(many), IsEmpty());
  Wait(1000);
  EXPECT_EQ(Round(many).size(), HandshakeBook::kMaxHandshakes);
  many.erase(many.begin(), many.begin() + HandshakeBook::kMaxHandshakes);
  Wait(2000);
  EXPECT_EQ(Round(many).size(), 10u);
}

}  // namespace
}  // namespace svcmap::proxy
