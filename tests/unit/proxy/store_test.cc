#include "proxy/state/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsNull;
using ::testing::Pair;

using DirtyList = std::vector<std::pair<std::string, uint64_t>>;

DirtyList TakeAll(Store& store) {
  DirtyList all;
  while (store.dirty().First() != nullptr) {
    DirtyService dirty = store.dirty().Take();
    all.emplace_back(dirty.key, dirty.sequence);
  }
  return all;
}

// Applies changes to a store, with the sequence numbers 1, 2, 3 and so on.
class StoreTest : public ::testing::Test {
 protected:
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, ++sequence_);
  }
  // Applies changes and takes all dirty Services from the store.
  void ApplySettled(const std::vector<Change>& changes) {
    Apply(changes);
    TakeAll(store_);
  }
  std::vector<std::string> SlicesOf(const std::string& service) {
    std::vector<std::string> keys;
    if (const ServiceEntry* entry = store_.Find(service)) {
      for (const auto& slice : entry->slices) keys.push_back(slice->key);
    }
    return keys;
  }

  Store store_;
  uint64_t sequence_ = 0;
};

// S-16: the revision at which a Service was stored first decides conflicts.
TEST_F(StoreTest, S16_AServiceKeepsTheRevisionAtWhichItWasStoredFirst) {
  const auto seen = [&](const std::string& key) {
    return store_.Stored(Kind::kService, key).first_seen.value_or(0);
  };
  store_.SetRevision(5);
  Apply({AService("ns/a"), ASlice("ns/a-1", "ns/a"), ASlice("ns/b-1", "ns/b")});
  store_.SetRevision(6);
  Apply({AService("ns/a").Port(80), AService("ns/b")});
  EXPECT_EQ(seen("ns/a"), 5u) << "updated";
  EXPECT_EQ(seen("ns/b"), 6u) << "its EndpointSlice came first";

  store_.SetRevision(7);
  Apply({NoService("ns/a")});
  EXPECT_EQ(seen("ns/a"), 0u) << "deleted";
  Apply({AService("ns/a")});
  EXPECT_EQ(seen("ns/a"), 7u) << "created again";

  // All new Services of a snapshot have the same revision.
  store_.BeginSnapshot();
  store_.SetRevision(8);
  Apply({AService("ns/b").Port(80), AService("ns/c")});
  EXPECT_EQ(seen("ns/b"), 6u);
  EXPECT_EQ(seen("ns/c"), 7u);
  store_.AbandonSnapshot();

  // A trial and the saved state restore the revision.
  TakeAll(store_);
  store_.BeginTrial();
  Apply({NoService("ns/b")});
  store_.EndTrial();
  EXPECT_EQ(seen("ns/b"), 6u);
  Change saved = AService("ns/d");
  saved.first_seen = 2;
  Apply({saved});
  EXPECT_EQ(seen("ns/d"), 2u);
}

TEST_F(StoreTest, MovesAreWhatCanMakeHandshakesStale) {
  const auto moves = [&](const std::vector<Change>& changes, const std::string& key = "ns/web") {
    Apply(changes);
    const ServiceMoves moves = store_.TakeMoves(key);
    std::string text = moves.any ? "any" : "";
    for (const IpAddress& address : moves.added) text += " +" + address.ToString();
    std::set<std::string> left;
    for (const auto& [address, port] : moves.left) {
      left.insert(" -" + address.ToString() + ":" + std::to_string(port));
    }
    for (const std::string& endpoint : left) text += endpoint;
    return text;
  };
  const auto slice = [](const std::vector<std::string>& endpoints, uint16_t port = 8080) {
    ASlice slice("ns/web-1", "ns/web");
    slice.Port(port);
    for (const std::string& endpoint : endpoints) slice.Ready(endpoint);
    return Change(slice);
  };
  const AService web = AService("ns/web").At("10.96.0.1").Port(80);
  EXPECT_EQ(moves({AService("ns/web").At("10.96.0.2").Port(80)}), "") << "not recorded";
  EXPECT_EQ(moves({slice({"10.0.0.1"}), NoSlice("ns/web-1")}), " -10.0.0.1:8080");
  store_.KeepMoves();
  EXPECT_EQ(moves({web}), "any");
  EXPECT_EQ(moves({web}), "");
  EXPECT_EQ(moves({AService(web).Affinity(10)}), "") << "the addresses are the same";
  EXPECT_EQ(moves({AService(web).External("192.0.2.1")}), "any");
  EXPECT_EQ(moves({slice({"10.0.0.1", "10.0.0.2", "10.0.0.3"})}), " +10.0.0.1 +10.0.0.2 +10.0.0.3");
  EXPECT_EQ(moves({slice({"10.0.0.1", "10.0.0.4", "10.0.0.3"})}), "any +10.0.0.4 -10.0.0.2:8080");
  EXPECT_EQ(moves({slice({"10.0.0.3", "10.0.0.4", "10.0.0.1"})}), "") << "another order";
  EXPECT_EQ(moves({slice({"10.0.0.3"})}), "any -10.0.0.1:8080 -10.0.0.4:8080");
  EXPECT_EQ(moves({slice({"10.0.0.3"}, 8081)}), "any -10.0.0.3:8080");
  EXPECT_EQ(moves({slice({"10.0.0.3", "10.0.0.5"}, 8081), slice({"10.0.0.5"}, 8081)}),
            "any +10.0.0.5 -10.0.0.3:8081");
  Change moved = ASlice("ns/web-1", "ns/other").Port(8081).Ready("10.0.0.5");
  EXPECT_EQ(moves({moved}), "any -10.0.0.5:8081");
  EXPECT_EQ(moves({}, "ns/other"), " +10.0.0.5");
  EXPECT_EQ(moves({NoSlice("ns/web-1")}, "ns/other"), "any -10.0.0.5:8081");
  EXPECT_EQ(moves({NoService("ns/web")}), "any");
  const ASlice udp = ASlice("ns/dns-1", "ns/dns").Port(53, "", Protocol::kUdp).Ready("10.0.0.1");
  EXPECT_EQ(moves({udp, NoSlice("ns/dns-1")}, "ns/dns"), "") << "UDP has no handshakes";

  Apply({slice({"10.0.0.1"})});
  TakeAll(store_);
  store_.BeginTrial();
  Apply({slice({"10.0.0.2"})});
  store_.EndTrial();
  EXPECT_EQ(moves({}), " +10.0.0.1") << "after a trial";
}

TEST_F(StoreTest, DirtyServicesComeInTheOrderOfTheirFirstChange) {
  Apply({AService("ns/c"), AService("ns/a"), AService("ns/b")});
  EXPECT_THAT(TakeAll(store_), ElementsAre(Pair("ns/c", 1), Pair("ns/a", 2), Pair("ns/b", 3)));
}

TEST_F(StoreTest, AServiceThatChangesAgainKeepsItsPlaceAndSequence) {
  Apply({AService("ns/a"), AService("ns/b"), ASlice("ns/a-1", "ns/a"), AService("ns/a").Port(1)});
  EXPECT_THAT(TakeAll(store_), ElementsAre(Pair("ns/a", 1), Pair("ns/b", 2)));
}

TEST_F(StoreTest, WhatIsReturnedGoesFirstInItsOrderAndOnce) {
  Apply({AService("ns/a"), AService("ns/b"), AService("ns/c")});
  std::vector<DirtyService> taken;
  taken.push_back(store_.dirty().Take());
  taken.push_back(store_.dirty().Take());
  store_.dirty().Return(std::move(taken));
  Apply({AService("ns/a").Port(1)});
  EXPECT_THAT(TakeAll(store_), ElementsAre(Pair("ns/a", 1), Pair("ns/b", 2), Pair("ns/c", 3)));
}

TEST_F(StoreTest, EveryChangeOfANodeOrServiceCidrRaisesTheNodeVersion) {
  const Change changes[] = {ANode("n1", {"192.0.2.1"}),
                            ANode("n1", {"192.0.2.2"}),
                            AServiceCidr("default", {"10.96.0.0/16"}),
                            AServiceCidr("default", {"10.97.0.0/16"}),
                            Removal(Kind::kNode, "n1"),
                            Removal(Kind::kServiceCidr, "default")};
  for (const Change& change : changes) {
    const uint64_t before = store_.node_version();
    Apply({change});
    EXPECT_GT(store_.node_version(), before) << KindName(change.kind);
  }
  EXPECT_THAT(store_.nodes(), IsEmpty());
  EXPECT_THAT(store_.service_cidrs(), IsEmpty());
}

TEST_F(StoreTest, NothingIsLeftOfAServiceWithoutSlices) {
  ApplySettled({AService("ns/a"), ASlice("ns/a-1", "ns/a"), NoSlice("ns/a-1"), NoService("ns/a")});
  EXPECT_THAT(store_.Find("ns/a"), IsNull());
  EXPECT_EQ(store_.service_count(), 0u);
  EXPECT_EQ(store_.slices().size(), 0u);
}

TEST_F(StoreTest, S18_ASliceThatMovesLeavesOneServiceForTheOther) {
  ApplySettled({AService("ns/a"), AService("ns/b"), ASlice("ns/s", "ns/a")});
  Apply({ASlice("ns/s", "ns/b")});
  EXPECT_THAT(SlicesOf("ns/a"), IsEmpty());
  EXPECT_THAT(SlicesOf("ns/b"), ElementsAre("ns/s"));
  EXPECT_THAT(TakeAll(store_), ElementsAre(Pair("ns/a", 4), Pair("ns/b", 4)));
}

// S-1: if a Service is assigned to another proxy, its EndpointSlices stay stored, like the
// EndpointSlices of a deleted Service.
TEST_F(StoreTest, S1_AServiceThatIsNoLongerProxiedIsDirtyAndKeepsItsSlices) {
  ApplySettled({AService("ns/a").At("10.96.0.1").Port(80), ASlice("ns/a-1", "ns/a")});
  Apply({AService("ns/a").At("10.96.0.1").Port(80).NotProxied()});
  EXPECT_THAT(TakeAll(store_), ElementsAre(Pair("ns/a", 3)));
  Apply({AService("ns/a").At("10.96.0.1").Port(80)});
  EXPECT_THAT(TakeAll(store_), ElementsAre(Pair("ns/a", 4)));
  EXPECT_THAT(SlicesOf("ns/a"), ElementsAre("ns/a-1"));
}

TEST_F(StoreTest, S29_AChangedZoneIsAChangeOfTheNode) {
  ApplySettled({ANode("n1", {"192.0.2.1"}, "za")});
  const uint64_t before = store_.node_version();
  Apply({ANode("n1", {"192.0.2.1"}, "zb")});
  EXPECT_GT(store_.node_version(), before);
  EXPECT_EQ(store_.nodes().at("n1")->zone, "zb");
}

TEST_F(StoreTest, OnlyTheAffectedServicesAreMarked) {
  ApplySettled({AService("ns/a").Port(80), AService("ns/b").Port(80).Port(81).NodePort(30081),
                ASlice("ns/c-1", "ns/c")});
  Apply({AService("ns/d")});
  store_.MarkDirtyIf([](const ServiceEntry& entry) { return entry.service->ports.size() == 2; });
  EXPECT_THAT(TakeAll(store_), ElementsAre(Pair("ns/b", 0), Pair("ns/d", 4)));
}

// Changes that move an address between Services must be in the same transaction.
TEST_F(StoreTest, TellsWhetherAnAddressMayHaveMoved) {
  const Change a = AService("ns/a").At("10.96.0.1").Port(80);
  const struct {
    const char* name;
    std::vector<Change> settled, changes;
    bool moved;
  } cases[] = {
      {"new Services", {}, {a, AService("ns/b").At("10.96.0.2").Port(80)}, false},
      {"slices", {a}, {ASlice("ns/a-1", "ns/a")}, false},
      {"a Service goes", {a}, {NoService("ns/a")}, false},
      {"a Service goes, later another comes",
       {a, NoService("ns/a")},
       {AService("ns/b").At("10.96.0.1").Port(80)},
       false},
      {"a Service goes and another comes",
       {a},
       {NoService("ns/a"), AService("ns/b").At("10.96.0.1").Port(80)},
       true},
      {"a Service wins from another", {AService("ns/b").At("10.96.0.1").Port(80)}, {a}, true},
      {"a Service keeps its addresses",
       {a},
       {AService("ns/a").At("10.96.0.1").Port(80, "http"), AService("ns/b").Port(80)},
       false},
      {"a node port gives way", {AService("ns/n").At("10.96.0.3").Port(1).NodePort(80)}, {a}, true},
  };
  for (const auto& c : cases) {
    Store store;
    for (const Change& change : c.settled) {
      store.Apply(change, 1);
      TakeAll(store);
    }
    for (const Change& change : c.changes) store.Apply(change, 2);
    EXPECT_EQ(store.addresses_moved(), c.moved) << c.name;
    TakeAll(store);
    store.MarkDirtyIf([](const ServiceEntry&) { return true; });
    EXPECT_FALSE(store.addresses_moved()) << c.name;
  }
}

// A store that contains two objects of each kind, "x/old" and "x/new".
class SnapshotTest : public ::testing::Test {
 protected:
  SnapshotTest() {
    for (const char* key : {"x/old", "x/new"}) {
      for (const Change& change : Objects(key)) store_.Apply(change, 1);
    }
    while (store_.dirty().First() != nullptr) store_.dirty().Take();
  }

  static std::vector<Change> Objects(const std::string& key) {
    return {AService(key).Port(80), ASlice(key, key), ANode(key, {"192.0.2.1"}),
            AServiceCidr(key, {"10.96.0.0/16"})};
  }
  void ApplyNew() {
    for (const Change& change : Objects("x/new")) store_.Apply(change, 2);
  }
  // Returns the stored objects as sorted lines such as "Service x/old".
  std::vector<std::string> Stored() const {
    std::vector<std::string> held;
    for (const auto& [key, entry] : store_.services()) {
      if (entry.service) held.push_back("Service " + key);
    }
    for (const auto& [key, slice] : store_.slices()) held.push_back("EndpointSlice " + key);
    for (const auto& [name, node] : store_.nodes()) held.push_back("Node " + name);
    for (const auto& [name, cidr] : store_.service_cidrs()) held.push_back("ServiceCIDR " + name);
    std::sort(held.begin(), held.end());
    return held;
  }

  const std::vector<std::string> new_ = {"EndpointSlice x/new", "Node x/new", "Service x/new",
                                         "ServiceCIDR x/new"};
  Store store_;
};

TEST_F(SnapshotTest, TheEndRemovesWhatWasNotNamedOfEveryKind) {
  store_.BeginSnapshot();
  ApplyNew();
  store_.EndSnapshot(7);
  EXPECT_EQ(Stored(), new_);
  ASSERT_EQ(store_.dirty().size(), 1u);
  EXPECT_EQ(store_.dirty().First()->key, "x/old");
  EXPECT_EQ(store_.dirty().First()->sequence, 7u);
}

TEST_F(SnapshotTest, WhatWasNamedButRejectedStays) {
  store_.BeginSnapshot();
  for (const Kind kind : {Kind::kService, Kind::kEndpointSlice, Kind::kNode, Kind::kServiceCidr}) {
    store_.AddToSnapshot(kind, "x/new");
  }
  store_.EndSnapshot(2);
  EXPECT_EQ(Stored(), new_);
}

TEST_F(SnapshotTest, ASnapshotKeyCountsForItsKindOnly) {
  store_.BeginSnapshot();
  store_.AddToSnapshot(Kind::kService, "x/new");
  store_.EndSnapshot(2);
  EXPECT_THAT(Stored(), ElementsAre("Service x/new"));
}

TEST_F(SnapshotTest, BeginningAgainForgetsWhatWasNamed) {
  store_.BeginSnapshot();
  for (const Change& change : Objects("x/old")) store_.Apply(change, 2);
  store_.BeginSnapshot();
  ApplyNew();
  store_.EndSnapshot(3);
  EXPECT_EQ(Stored(), new_);
}

}  // namespace
}  // namespace svcmap::proxy
