// Tests that the end of a snapshot removes objects that the controller did not send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proxy/state/store.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;

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
    store_.ForEachService([&](const std::string& key, const ServiceEntry& entry) {
      if (entry.service) held.push_back("Service " + key);
    });
    store_.ForEachSlice([&](const auto& slice) { held.push_back("EndpointSlice " + slice->key); });
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
