#include "api/source/mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "svcmap/v1/control.pb.h"
#include "tests/support/wait.h"

namespace svcmap::source::test {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class MirrorTest : public ::testing::Test {
 protected:
  static constexpr size_t kNoLimit = size_t{1} << 30;

  static Item AnItem(std::string key, const v1::Change& change) {
    return {.key = std::move(key), .resource_version = "1", .change = change.SerializeAsString()};
  }

  static Item AService(const std::string& name, const std::string& ip) {
    v1::Change change;
    v1::Service& service = *change.mutable_service();
    service.mutable_metadata()->set_namespace_("shop");
    service.mutable_metadata()->set_name(name);
    service.mutable_spec()->set_cluster_ip(ip);
    return AnItem("shop/" + name, change);
  }

  static Item ASlice(const std::string& name, const std::string& address) {
    v1::Change change;
    v1::EndpointSlice& slice = *change.mutable_endpoint_slice();
    slice.mutable_metadata()->set_namespace_("shop");
    slice.mutable_metadata()->set_name(name);
    (*slice.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = "web";
    slice.add_endpoints()->add_addresses(address);
    return AnItem("shop/" + name, change);
  }

  static Item ANode(const std::string& name) {
    v1::Change change;
    change.mutable_node()->mutable_metadata()->set_name(name);
    return AnItem(name, change);
  }

  // Formats a change as text such as "+web 10.96.0.1", "+slice web-1 10.1.0.1" or "-KIND_SERVICE
  // shop/web".
  static std::string Text(const std::string& bytes) {
    v1::Change change;
    if (!change.ParseFromString(bytes)) return "no change";
    switch (change.change_case()) {
      case v1::Change::kService:
        return "+" + change.service().metadata().name() + " " +
               change.service().spec().cluster_ip();
      case v1::Change::kEndpointSlice:
        return "+slice " + change.endpoint_slice().metadata().name() + " " +
               change.endpoint_slice().endpoints(0).addresses(0);
      case v1::Change::kNode:
        return "+node " + change.node().metadata().name();
      case v1::Change::kServiceCidr:
        return "+cidr " + change.service_cidr().metadata().name();
      case v1::Change::kRemove: {
        const v1::ObjectRef& ref = change.remove();
        return "-" + v1::Kind_Name(ref.kind()) + " " + ref.namespace_() + "/" + ref.name();
      }
      default:
        return "something else";
    }
  }

  std::vector<std::string> Take(size_t max_bytes = kNoLimit) {
    std::vector<std::string> texts;
    for (const std::string& change : mirror_.TakeChanges(max_bytes)) texts.push_back(Text(change));
    return texts;
  }
  void ListEverything(std::vector<Item> services = {}) {
    mirror_.Replace(Resource::kServices, std::move(services));
    mirror_.Replace(Resource::kEndpointSlices, {});
    mirror_.Replace(Resource::kNode, {});
    mirror_.Replace(Resource::kServiceCidrs, {});
  }
  void Upsert(const Item& service) { mirror_.Upsert(Resource::kServices, service); }
  void Remove(const std::string& service) { mirror_.Remove(Resource::kServices, service); }

  Mirror mirror_;
};

TEST_F(MirrorTest, CompleteOnceEachResourceWasListed_S333) {
  mirror_.Upsert(Resource::kNode, ANode("n1"));
  for (const Resource resource : kResources) {
    EXPECT_FALSE(mirror_.complete());
    mirror_.Replace(resource, {});
  }
  EXPECT_TRUE(mirror_.complete());
}

TEST_F(MirrorTest, ChangesComeInTheirOrderAndOnce) {
  ListEverything();
  Upsert(AService("b", "10.96.0.2"));
  mirror_.Upsert(Resource::kNode, ANode("n1"));
  Upsert(AService("a", "10.96.0.1"));
  Upsert(AService("b", "10.96.0.3"));
  EXPECT_EQ(mirror_.counts().waiting, 3u);
  EXPECT_THAT(Take(), ElementsAre("+b 10.96.0.3", "+node n1", "+a 10.96.0.1"));
  EXPECT_TRUE(mirror_.SentPosition().has_value());
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(MirrorTest, WhatIsEqualIsNoChange) {
  ListEverything();
  Upsert(AService("web", "10.96.0.1"));
  EXPECT_EQ(Take().size(), 1u);
  Item again = AService("web", "10.96.0.1");
  again.resource_version = "2";
  Upsert(again);
  mirror_.Replace(Resource::kServices, {again});
  EXPECT_TRUE(mirror_.SentPosition().has_value());
}

TEST_F(MirrorTest, ARemovalIsReportedToWhomeverWasToldTheObject) {
  ListEverything({AService("web", "10.96.0.1")});
  EXPECT_EQ(Take().size(), 1u);
  Upsert(AService("web", "10.96.0.2"));
  Upsert(AService("new", "10.96.0.3"));
  Remove("shop/web");
  Remove("shop/web");
  Remove("shop/new");    // The object was not sent, so its removal is not sent either.
  Remove("shop/never");  // The object shop/never never existed.
  EXPECT_EQ(mirror_.counts().objects, 0u);
  EXPECT_EQ(mirror_.counts().bytes, 0u);
  EXPECT_THAT(Take(), ElementsAre("-KIND_SERVICE shop/web"));
  EXPECT_THAT(Take(), IsEmpty());

  Upsert(AService("web", "10.96.0.1"));
  Take();
  Remove("shop/web");
  Upsert(AService("web", "10.96.0.1"));
  EXPECT_THAT(Take(), ElementsAre("+web 10.96.0.1"));
}

TEST_F(MirrorTest, ARemovalNamesItsKind) {
  ListEverything();
  const std::map<Resource, std::pair<std::string, std::string>> expected = {
      {Resource::kServices, {"a/b", "-KIND_SERVICE a/b"}},
      {Resource::kEndpointSlices, {"a/b", "-KIND_ENDPOINT_SLICE a/b"}},
      {Resource::kNode, {"n1", "-KIND_NODE /n1"}},
      {Resource::kServiceCidrs, {"c", "-KIND_SERVICE_CIDR /c"}}};
  for (const auto& [resource, removal] : expected) {
    Item item = ANode("n1");
    item.key = removal.first;
    mirror_.Upsert(resource, item);
    Take();
    mirror_.Remove(resource, removal.first);
    EXPECT_THAT(Take(), ElementsAre(removal.second));
  }
}

// Additions precede removals, so endpoints that move to another slice are present at all times.
TEST_F(MirrorTest, AListSaysWhatIsNewBeforeWhatIsGone) {
  ListEverything();
  mirror_.Replace(Resource::kEndpointSlices,
                  {ASlice("web-1", "10.1.0.1"), ASlice("web-2", "10.1.0.2")});
  Upsert(AService("web", "10.96.0.1"));
  Take();
  mirror_.Replace(Resource::kEndpointSlices,
                  {ASlice("web-2", "10.1.0.2"), ASlice("web-3", "10.1.0.1")});
  EXPECT_THAT(Take(), ElementsAre("+slice web-3 10.1.0.1", "-KIND_ENDPOINT_SLICE shop/web-1"));
  // An event delivers web-4 before the next list, which contains only web-4.
  mirror_.Upsert(Resource::kEndpointSlices, ASlice("web-4", "10.1.0.4"));
  Take();
  mirror_.Replace(Resource::kEndpointSlices, {ASlice("web-4", "10.1.0.4")});
  EXPECT_THAT(Take(), UnorderedElementsAre("-KIND_ENDPOINT_SLICE shop/web-2",
                                           "-KIND_ENDPOINT_SLICE shop/web-3"));
}

TEST_F(MirrorTest, BatchesKeepToTheirSize) {
  ListEverything();
  for (char c = 'a'; c <= 'e'; ++c) Upsert(AService(std::string(1, c), "10.96.0.1"));
  const size_t one = mirror_.counts().bytes / 5;
  EXPECT_EQ(Take(2 * one).size(), 2u);
  EXPECT_EQ(Take(3 * one - 1).size(), 2u);
  EXPECT_FALSE(mirror_.SentPosition().has_value());
  // Take returns at least one change, even if the change exceeds the limit.
  EXPECT_THAT(Take(1), ElementsAre("+e 10.96.0.1"));
}

// ---- Groups ----

using Change = Mirror::Change;

TEST_F(MirrorTest, AGroupIsTakenInOneCallWhateverItsSize) {
  ListEverything();
  mirror_.Apply({{Resource::kServices, AService("a", "10.96.0.1")},
                 {Resource::kServices, AService("b", "10.96.0.2")}},
                1);
  mirror_.Apply({{Resource::kServices, AService("c", "10.96.0.3")}}, 2);
  EXPECT_EQ(mirror_.SentPosition(), std::nullopt);
  EXPECT_EQ(mirror_.TakeChanges(1, kNoLimit).size(), 2u);
  EXPECT_EQ(mirror_.TakeChanges(1, kNoLimit).size(), 1u);
  EXPECT_EQ(mirror_.SentPosition(), 2u);
}

struct Merge {
  const char* name;
  std::vector<std::vector<std::pair<const char*, const char*>>> groups;  // Without IP: a removal.
  std::vector<size_t> batches;
};

TEST_F(MirrorTest, GroupsThatShareAWaitingObjectAreTakenTogether) {
  const Merge cases[] = {
      {"disjoint", {{{"a", "1"}, {"b", "1"}}, {{"c", "1"}, {"d", "1"}}}, {2, 2}},
      {"shared", {{{"a", "1"}, {"b", "1"}}, {{"b", "2"}, {"c", "1"}}}, {3}},
      {"only waiting objects", {{{"a", "1"}}, {{"b", "1"}}, {{"a", "2"}, {"b", "2"}}}, {2}},
      {"across a third",
       {{{"a", "1"}}, {{"x", "1"}}, {{"a", "2"}, {"c", "1"}}, {{"d", "1"}}},
       {3, 1}},
      {"removal of a new object", {{{"a", "1"}, {"b", "1"}}, {{"a", ""}, {"c", "1"}}}, {2}},
      {"merged twice",
       {{{"a", "1"}}, {{"b", "1"}, {"a", "2"}}, {{"c", "1"}}, {{"b", "2"}, {"d", "1"}}},
       {4}},
  };
  for (const Merge& merge : cases) {
    SCOPED_TRACE(merge.name);
    Mirror mirror;
    mirror.ReplaceAll({}, 1);
    for (const auto& names : merge.groups) {
      std::vector<Change> group;
      for (const auto& [name, ip] : names) {
        Item item = AService(name, ip);
        if (*ip == '\0') item.change.clear();
        group.push_back({Resource::kServices, item});
      }
      mirror.Apply(group, 2);
    }
    std::vector<size_t> batches;
    while (!mirror.SentPosition()) batches.push_back(mirror.TakeChanges(1, kNoLimit).size());
    EXPECT_EQ(batches, merge.batches);
  }
}

TEST_F(MirrorTest, AGroupIsCutIfItExceedsWhatABatchMayHave) {
  ListEverything();
  std::vector<Change> group;
  for (char c = 'a'; c <= 'e'; ++c) {
    group.push_back({Resource::kServices, AService(std::string(1, c), "10.96.0.1")});
  }
  mirror_.Apply(group, 1);
  EXPECT_EQ(mirror_.TakeChanges(1, mirror_.counts().bytes / 2).size(), 2u);
  EXPECT_EQ(mirror_.TakeChanges(1, kNoLimit).size(), 3u);
}

TEST_F(MirrorTest, AGroupDoesNotJoinTheObjectsOfASnapshot) {
  ListEverything({AService("a", "10.96.0.1"), AService("b", "10.96.0.2")});
  mirror_.StartSnapshot();
  mirror_.Apply({{Resource::kServices, AService("a", "10.96.1.1")},
                 {Resource::kServices, AService("c", "10.96.1.3")},
                 {Resource::kServices, AService("d", "10.96.1.4")}},
                1);
  EXPECT_EQ(mirror_.TakeChanges(1, kNoLimit).size(), 1u);
  EXPECT_EQ(mirror_.TakeChanges(1, kNoLimit).size(), 1u);
  EXPECT_EQ(mirror_.TakeChanges(1, kNoLimit).size(), 2u);
}

TEST_F(MirrorTest, AListOfEverythingKeepsWhatIsOnlyNamed) {
  ListEverything({AService("a", "10.96.0.1"), AService("b", "10.96.0.2")});
  Take();
  Mirror::Lists lists;
  lists[0] = {{.key = "shop/a", .resource_version = "", .change = ""},
              {.key = "shop/never", .resource_version = "", .change = ""},
              AService("c", "10.96.0.3")};
  mirror_.ReplaceAll(lists, 7);
  EXPECT_EQ(mirror_.counts().objects, 2u);
  EXPECT_THAT(Take(1), ElementsAre("+c 10.96.0.3"));  // One group, but Take has no group limit.
  EXPECT_THAT(Take(1), ElementsAre("-KIND_SERVICE shop/b"));
  EXPECT_EQ(mirror_.SentPosition(), 7u);
}

TEST_F(MirrorTest, AListThatRemovesManyObjectsIsSentAsASnapshot) {
  Mirror::Lists lists;
  for (size_t i = 0; i < 2 * Mirror::kSnapshotRemovals; ++i) {
    lists[0].push_back(AService("s" + std::to_string(i), "10.96.0.1"));
  }
  mirror_.ReplaceAll(lists, 1);
  Take();
  lists[0].resize(Mirror::kSnapshotRemovals + 1);
  mirror_.ReplaceAll(lists, 2);
  EXPECT_EQ(mirror_.Wait(steady_clock::now()), Mirror::Wake::kChanges);
  Take();
  lists[0].resize(1);
  mirror_.ReplaceAll(lists, 3);
  EXPECT_EQ(mirror_.Wait(steady_clock::now()), Mirror::Wake::kSnapshot);
  EXPECT_THAT(Take(), IsEmpty());
  mirror_.StartSnapshot();
  EXPECT_EQ(mirror_.Wait(steady_clock::now()), Mirror::Wake::kChanges);
  EXPECT_THAT(Take(), ElementsAre("+s0 10.96.0.1"));
}

// ---- Snapshots ----

TEST_F(MirrorTest, ASnapshotIsEverythingSlicesBeforeServices) {
  ListEverything({AService("web", "10.96.0.1")});
  mirror_.Upsert(Resource::kServiceCidrs, [] {
    v1::Change change;
    change.mutable_service_cidr()->mutable_metadata()->set_name("kubernetes");
    return AnItem("kubernetes", change);
  }());
  mirror_.Upsert(Resource::kEndpointSlices, ASlice("web-1", "10.1.0.1"));
  mirror_.Upsert(Resource::kNode, ANode("n1"));
  for (int i = 0; i < 2; ++i) {
    mirror_.StartSnapshot();
    EXPECT_EQ(mirror_.counts().waiting, 4u);
    EXPECT_THAT(Take(), ElementsAre("+node n1", "+slice web-1 10.1.0.1", "+web 10.96.0.1",
                                    "+cidr kubernetes"));
    EXPECT_TRUE(mirror_.SentPosition().has_value());
  }
}

TEST_F(MirrorTest, WhatGoesInsideASnapshotIsRemovedOnlyIfItWasTaken) {
  ListEverything({AService("a", "10.96.0.1"), AService("b", "10.96.0.2")});
  Take();  // The agent received both objects on an earlier stream.
  mirror_.StartSnapshot();
  const std::string first = Take(1).at(0).substr(1, 1);
  const std::string second = first == "a" ? "b" : "a";
  // The snapshot already contains this object, so the push must remove the object explicitly.
  Remove("shop/" + first);
  // The snapshot does not contain this object, so SnapshotEnd prunes the object.
  Remove("shop/" + second);
  EXPECT_THAT(Take(), ElementsAre("-KIND_SERVICE shop/" + first));
}

TEST_F(MirrorTest, WhatChangesInsideASnapshotIsInIt) {
  ListEverything({AService("a", "10.96.0.1"), AService("b", "10.96.0.2")});
  mirror_.StartSnapshot();
  const std::string first = Take(1).at(0).substr(1, 1);
  const std::string second = first == "a" ? "b" : "a";
  // The old version was already sent, so the object is sent again after all other objects.
  Upsert(AService(first, "10.96.1.1"));
  // The old version was not sent yet, so the object is sent at its normal position.
  Upsert(AService(second, "10.96.1.2"));
  Upsert(AService("c", "10.96.1.3"));
  EXPECT_THAT(Take(),
              ElementsAre("+" + second + " 10.96.1.2", "+" + first + " 10.96.1.1", "+c 10.96.1.3"));
  Remove("shop/c");
  EXPECT_THAT(Take(), ElementsAre("-KIND_SERVICE shop/c"));
}

// ---- Waiting ----

TEST_F(MirrorTest, WaitEndsAtTheDeadlineOrTheEnd) {
  ListEverything();
  EXPECT_EQ(mirror_.Wait(steady_clock::now()), Mirror::Wake::kTimeout);
  Upsert(AService("web", "10.96.0.1"));
  EXPECT_EQ(mirror_.Wait(steady_clock::now()), Mirror::Wake::kChanges);
  mirror_.End();
  EXPECT_EQ(mirror_.Wait(steady_clock::now() + svcmap::testing::kHangLimit), Mirror::Wake::kEnded);
}

TEST_F(MirrorTest, WaitIsWokenByTheLastList) {
  mirror_.Replace(Resource::kServices, {AService("web", "10.96.0.1")});
  mirror_.Replace(Resource::kEndpointSlices, {});
  mirror_.Replace(Resource::kNode, {});
  EXPECT_EQ(mirror_.Wait(steady_clock::now()), Mirror::Wake::kTimeout);
  std::thread lister([this] { mirror_.Replace(Resource::kServiceCidrs, {}); });
  EXPECT_EQ(mirror_.Wait(steady_clock::now() + svcmap::testing::kHangLimit),
            Mirror::Wake::kChanges);
  lister.join();
}

// The agent applies all changes and prunes objects at SnapshotEnd. For any interleaving of writers
// and a push, the agent must end up with the same objects as the mirror.
TEST_F(MirrorTest, WritersAndAPushWithSnapshotsAgreeInTheEnd) {
  constexpr int kWriters = 3;
  constexpr int kRounds = 150;
  ListEverything();
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([this, w] {
      for (int i = 0; i < kRounds; ++i) {
        const std::string name = "s" + std::to_string(w) + "-" + std::to_string(i * 7 % 20);
        if (i % 3 == 2) {
          Remove("shop/" + name);
        } else {
          Upsert(AService(name, "10.96." + std::to_string(w) + "." + std::to_string(i % 250)));
        }
      }
    });
  }

  std::map<std::string, std::string> agent = {{"stale", "10.96.255.1"}};
  // Objects that were sent in the open snapshot, or nullopt if no snapshot is open.
  std::optional<std::map<std::string, std::string>> named;
  const auto apply = [&] {
    for (const std::string& bytes : mirror_.TakeChanges(100)) {
      v1::Change change;
      ASSERT_TRUE(change.ParseFromString(bytes));
      if (change.has_remove()) {
        agent.erase(change.remove().name());
        if (named) named->erase(change.remove().name());
      } else {
        const v1::Service& service = change.service();
        agent[service.metadata().name()] = service.spec().cluster_ip();
        if (named) (*named)[service.metadata().name()] = service.spec().cluster_ip();
      }
    }
  };
  for (int snapshot = 0; snapshot < 20; ++snapshot) {
    mirror_.StartSnapshot();
    named.emplace();
    while (!mirror_.SentPosition()) apply();
    agent = *std::exchange(named, std::nullopt);
    for (int i = 0; i < 20; ++i) apply();
  }
  for (std::thread& writer : writers) writer.join();
  while (!mirror_.SentPosition()) apply();

  std::map<std::string, std::string> wanted;
  mirror_.StartSnapshot();
  for (const std::string& bytes : mirror_.TakeChanges(kNoLimit)) {
    v1::Change change;
    ASSERT_TRUE(change.ParseFromString(bytes));
    wanted[change.service().metadata().name()] = change.service().spec().cluster_ip();
  }
  EXPECT_EQ(agent, wanted);
  EXPECT_EQ(mirror_.counts().objects, wanted.size());
}

}  // namespace
}  // namespace svcmap::source::test
