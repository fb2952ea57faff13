// Tests the C++ Store with etcd. The tests of `svcmapctl fleet apply` cover its transactions.
#include "api/fleet/store.h"

#include <gmock/gmock.h>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "api/manifests/manifests.h"
#include "tests/etcd/etcd_world.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;

class StoreTest : public EtcdTest {
 protected:
  std::unique_ptr<fleet::Store> NewStore(const std::string& name) {
    return std::make_unique<fleet::Store>(
        fleet::EtcdServers{.endpoints = {"unix:" + etcd_->socket()}, .tls = {}}, prefix_, name);
  }
  // Returns the objects with the Node object of the fixture.
  static Objects WithNode(Objects objects) {
    objects.push_back(Node().front());
    return objects;
  }
  static void ExpectError(const absl::Status& status, absl::StatusCode code,
                          const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
};

TEST_F(StoreTest, TheNextStoreContinuesWithoutWritingObjects) {
  ASSERT_OK(StartSource());
  objects_ = WithNode(Webs(150));
  auto first = NewStore("first");
  ASSERT_OK(first->Set(objects_));
  EXPECT_EQ(first->seq(), writer_->seq() + 3);
  ASSERT_OK(UntilSynced());
  const int64_t written = RevisionOf(WebKey(0));
  EXPECT_EQ(RevisionOf(SliceKey(0)), written);
  ASSERT_OK(first->Set(objects_));
  EXPECT_EQ(first->seq(), writer_->seq() + 3);

  auto second = NewStore("second");
  ExpectError(second->Set(objects_), absl::StatusCode::kFailedPrecondition,
              "/leader: another Store is elected: \"{\\\"name\\\":\\\"first\\\"");
  first.reset();
  ASSERT_OK(second->Set(objects_));
  EXPECT_EQ(RevisionOf(WebKey(0)), written);
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq() + 4));  // The head of the new writer.
  EXPECT_OK(UntilMetric("epoch", 3));
  EXPECT_OK(UntilMetric("gaps_total", 0));

  objects_.erase(objects_.begin(), objects_.begin() + 2);
  ASSERT_OK(second->Set(objects_));
  ASSERT_OK(UntilSynced());
}

TEST_F(StoreTest, ChangesOfAnotherWriterAreReplaced) {
  ASSERT_OK(StartSource());
  auto store = NewStore("store");
  ASSERT_OK(store->Set(WithNode(Webs(2))));
  ASSERT_OK(writer_->Adopt());
  ASSERT_OK(writer_->Put({Web(0, Ip(9)), Web(5, Ip(5))}));
  objects_ = WithNode(Webs(3));
  ExpectError(store->Set(objects_), absl::StatusCode::kAborted, "another writer has written");
  ASSERT_OK(store->Set(objects_));
  ASSERT_OK(UntilSynced());
}

TEST_F(StoreTest, AStoreIsElectedAgainAfterItsLeaseHasExpired) {
  auto store = NewStore("store");
  ASSERT_OK(store->Set(WithNode(Webs(2))));
  ASSERT_OK_AND_ASSIGN(const std::string leases, etcd_->Control({"lease", "list"}));
  const std::vector<std::string> lines = absl::StrSplit(leases, '\n');
  ASSERT_GE(lines.size(), 2u) << leases;
  ASSERT_OK(etcd_->Control({"lease", "revoke", lines[1]}));
  EXPECT_EQ(RevisionOf("/leader"), 0);
  ExpectError(store->Set(WithNode(Webs(3))), absl::StatusCode::kAborted, "");
  EXPECT_EQ(RevisionOf(WebKey(2)), 0);
  EXPECT_OK(Eventually("an election", [&] { return store->Set(WithNode(Webs(3))).ok(); }));
  EXPECT_GT(RevisionOf("/leader"), 0);
  EXPECT_GT(RevisionOf(WebKey(2)), 0);
}

TEST_F(StoreTest, ASetAfterTheEndOfTheLeaseWritesTheDifferences) {
  auto store = NewStore("store");
  ASSERT_OK(store->Set(WithNode(Webs(2))));
  ASSERT_OK(Eventually("the end of the lease", [&] { return RevisionOf("/leader") == 0; }));
  ASSERT_OK(store->Set(WithNode(Webs(3))));
  EXPECT_GT(RevisionOf("/leader"), 0);
  EXPECT_GT(RevisionOf(WebKey(2)), 0);
}

TEST_F(StoreTest, AKeyOfAnEarlierLeaseIsWrittenWithTheCurrentLease) {
  auto store = NewStore("store");
  ASSERT_OK(store->Set(WithNode(Webs(1))));
  ASSERT_OK_AND_ASSIGN(std::string value,
                       etcd_->Control({"get", "--print-value-only", prefix_ + "/leader"}));
  value.resize(value.find('\n'));
  ASSERT_OK_AND_ASSIGN(const std::string granted, etcd_->Control({"lease", "grant", "600"}));
  const std::vector<std::string> words = absl::StrSplit(granted, ' ');  // lease ID granted ...
  ASSERT_GE(words.size(), 2u) << granted;
  ASSERT_OK(etcd_->Control({"put", "--lease=" + words[1], prefix_ + "/leader", value}));
  ExpectError(store->Set(WithNode(Webs(2))), absl::StatusCode::kAborted, "");
  ASSERT_OK(store->Set(WithNode(Webs(2))));
  ASSERT_OK(etcd_->Control({"lease", "revoke", words[1]}));
  EXPECT_GT(RevisionOf("/leader"), 0);
  ASSERT_OK(store->Set(WithNode(Webs(3))));
}

TEST_F(StoreTest, EndpointsThatARejectedSliceDoesNotListAreRemoved) {
  ASSERT_OK(StartSource());
  auto store = NewStore("store");
  const v1::Object one = Slice(0, "10.244.2.1");
  v1::Object two = one;
  *two.mutable_endpoint_slice()->add_endpoints() =
      Slice(0, "10.244.2.2").endpoint_slice().endpoints(0);
  ASSERT_OK(store->Set(WithNode({Web(0, Ip(0)), two})));
  v1::Object rejected = one;
  rejected.mutable_endpoint_slice()->set_address_type("IPv5");
  ExpectError(store->Set(WithNode({Web(0, Ip(0)), rejected})), absl::StatusCode::kInvalidArgument,
              "EndpointSlice shop/s0 rejected: addressType");
  objects_ = WithNode({Web(0, Ip(0)), one});
  EXPECT_OK(UntilSynced());
}

TEST_F(StoreTest, RemovalsOfMostObjectsAndRejectedObjectsAreNotWritten) {
  auto store = NewStore("store");
  ASSERT_OK(store->Set(WithNode(Webs(20))));
  Objects fewer = WithNode(Webs(10));
  fewer.push_back(Web(30, Ip(30)));
  ExpectError(store->Set(fewer), absl::StatusCode::kFailedPrecondition,
              "would remove 10 of 20 services, 10 of 20 endpointslices");
  EXPECT_GT(RevisionOf(WebKey(19)), 0);
  EXPECT_GT(RevisionOf(WebKey(30)), 0);
  ASSERT_OK(store->Set(fewer, /*accept_removals=*/true));
  EXPECT_EQ(RevisionOf(WebKey(19)), 0);

  const int64_t before = RevisionOf(WebKey(0));
  fewer.push_back(Web(0, "10.96.0.300"));
  fewer.erase(fewer.begin());
  fewer.push_back(Web(31, Ip(31)));
  ExpectError(store->Set(fewer), absl::StatusCode::kInvalidArgument,
              "Service shop/s0 rejected: spec.clusterIP");
  EXPECT_EQ(RevisionOf(WebKey(0)), before);
  EXPECT_GT(RevisionOf(WebKey(31)), 0);
}

TEST_F(StoreTest, TheExampleKeepsAFleetEqualToAFile) {
  ASSERT_OK(StartSource());
  const std::string path = folder_->path() + "/fleet.yaml";
  const auto write = [&](int count, const std::string& more = "") {
    objects_ = WithNode(Webs(count));
    std::ofstream(path + ".new") << api::ManifestYaml(objects_) << more;
    return std::rename((path + ".new").c_str(), path.c_str()) == 0;
  };
  ASSERT_TRUE(write(3));
  ASSERT_OK_AND_ASSIGN(const auto example,
                       ChildProcess::Start({.argv = {SVCMAP_BIN_DIR "/svcmap-example-fleet", path,
                                                     etcd_url_, prefix_},
                                            .netns = &*netns_}));
  ASSERT_OK(UntilSynced());
  ASSERT_TRUE(write(2));
  ASSERT_OK(UntilSynced());
  const int64_t head = RevisionOf("/state/head");
  EXPECT_OK(Eventually("a head without changes", [&] { return RevisionOf("/state/head") > head; }));
  EXPECT_EQ(example->err(), "");

  // A misspelled name must not remove an object.
  const std::string typo = "---\napiVersion: v1\nkind: Service\nmetadata: {name: x}\nspce: {}\n";
  ASSERT_TRUE(write(1, typo));
  EXPECT_TRUE(example->WaitForOutput("did you mean \"spec\"", kHangLimit)) << example->err();
  ASSERT_TRUE(write(1, absl::StrReplaceAll(typo, {{"Service", "Servcie"}})));
  EXPECT_TRUE(example->WaitForOutput("did you mean \"Service\"", kHangLimit)) << example->err();
  EXPECT_GT(RevisionOf(WebKey(1)), 0);
}

}  // namespace
}  // namespace svcmap::testing
