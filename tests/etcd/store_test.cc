// Tests the C++ Store with etcd. The tests of `svcmapctl fleet apply` cover its transactions.
#include "api/fleet/store.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "api/manifests/manifests.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"
#include "tests/etcd/etcd_world.h"

namespace svcmap::testing {
namespace {

using ::testing::ContainsRegex;
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

// Tests `svcmapctl fleet apply` with etcd.

constexpr uint16_t kFaultyPort = 2377;

TEST_F(EtcdTest, ManifestsAreApplied) {
  const std::string node = api::ManifestYaml(Node());
  const auto manifest = [&](const Objects& objects) {
    return api::ManifestYaml(objects) + "---\n" + node;
  };
  ASSERT_OK_AND_ASSIGN(const CommandResult planned, FleetApply(manifest(Webs(1)), {"--dry-run"}));
  EXPECT_TRUE(planned.exit.ok()) << planned.err;
  EXPECT_EQ(planned.out, absl::StrCat("node/n1 unchanged (dry run)\n"
                                      "endpointslice/shop/s0 created (dry run)\n"
                                      "service/shop/s0 created (dry run)\n"
                                      "seq ",
                                      writer_->seq(), ", 2 changes in 1 transaction (dry run)\n"));
  EXPECT_EQ(RevisionOf(WebKey(0)), 0);

  // Labels that svcmapd does not use are not written.
  Objects objects = Webs(1);
  (*objects[0].mutable_service()->mutable_metadata()->mutable_labels())["app"] = "web";
  ASSERT_OK_AND_ASSIGN(const CommandResult created, FleetApply(manifest(objects)));
  EXPECT_TRUE(created.exit.ok()) << created.err;
  EXPECT_EQ(created.out, absl::StrCat("node/n1 unchanged\nendpointslice/shop/s0 created\n"
                                      "service/shop/s0 created\nseq ",
                                      writer_->seq() + 1, ", 2 changes in 1 transaction\n"));
  objects_ = Webs(1);
  objects_.push_back(Node().front());
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  const int64_t head = RevisionOf("/state/head");
  EXPECT_EQ(RevisionOf(WebKey(0)), head);
  ASSERT_OK_AND_ASSIGN(const CommandResult repeated, FleetApply(manifest(Webs(1)), {"--prune"}));
  EXPECT_THAT(repeated.out, HasSubstr(", no changes\n"));
  EXPECT_EQ(RevisionOf("/state/head"), head);

  // Another writer with an earlier head fails, and the epoch stays.
  EXPECT_EQ(writer_->Put(Webs(1)).code(), absl::StatusCode::kAborted);
  ASSERT_OK(writer_->Adopt());
  ASSERT_OK(Put({Web(1, Ip(1)), Slice(1, "10.244.2.2")}));
  const Objects next = {Web(0, Ip(7))};
  ASSERT_OK_AND_ASSIGN(const CommandResult pruned, FleetApply(manifest(next), {"--prune"}));
  EXPECT_TRUE(pruned.exit.ok()) << pruned.err;
  EXPECT_EQ(pruned.out, absl::StrCat("node/n1 unchanged\nservice/shop/s0 configured\n"
                                     "endpointslice/shop/s0 pruned\nservice/shop/s1 pruned\n"
                                     "endpointslice/shop/s1 pruned\nseq ",
                                     writer_->seq() + 1, ", 4 changes in 1 transaction\n"));
  objects_ = {next[0], Node().front()};
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq() + 1));
  EXPECT_OK(UntilMetric("epoch", 1));
  EXPECT_OK(UntilMetric("gaps_total", 0));
  EXPECT_OK(UntilMetric("rejected_keys", 0));
}

TEST_F(EtcdTest, ManifestsOfManyObjectsAreAppliedInSeveralTransactions) {
  // 200 slices of one Service do not fit into a transaction.
  Objects objects = Webs(150);
  for (int n = 0; n < 200; ++n) {
    objects.push_back(ASlice("shop/s0")
                          .Named(absl::StrCat("s0-", n))
                          .Endpoint(absl::StrCat("10.244.3.", n), "n2")
                          .Port("tcp", 8080));
  }
  ASSERT_OK(StartSource());
  ASSERT_OK_AND_ASSIGN(const CommandResult created, FleetApply(api::ManifestYaml(objects)));
  ASSERT_TRUE(created.exit.ok()) << created.err;
  EXPECT_THAT(created.out, HasSubstr(absl::StrCat("\nseq ", writer_->seq() + 5,
                                                  ", 500 changes in 5 transactions\n")));
  for (const v1::Object& object : objects) objects_.push_back(object);
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("gaps_total", 0));
  EXPECT_LT(RevisionOf("/state/endpointslices/shop/s0-0"), RevisionOf(WebKey(0)));
  for (const int n : {1, 50, 149}) EXPECT_EQ(RevisionOf(SliceKey(n)), RevisionOf(WebKey(n))) << n;

  // Most objects are not removed without --allow-empty, and endpoints are removed last.
  const std::string one = api::ManifestYaml({Web(149, Ip(149))});
  const int64_t head = RevisionOf("/state/head");
  ASSERT_OK_AND_ASSIGN(const CommandResult held, FleetApply(one, {"--prune"}));
  EXPECT_EQ(held.exit.code, 1);
  EXPECT_THAT(held.err, HasSubstr("nothing was written, because it would delete 149 of 150 "
                                  "services, 350 of 350 endpointslices; use --allow-empty"));
  EXPECT_EQ(RevisionOf("/state/head"), head);
  ASSERT_OK_AND_ASSIGN(const CommandResult pruned, FleetApply(one, {"--prune", "--allow-empty"}));
  EXPECT_TRUE(pruned.exit.ok()) << pruned.err;
  EXPECT_THAT(pruned.out, HasSubstr("\nservice/shop/s0 pruned\nendpointslice/shop/s0 pruned\n"));
  objects_ = {Web(149, Ip(149))};
  ASSERT_OK(UntilSynced());
}

// An endpoint that forwards transactions to etcd.
class FaultyEndpoint : public etcdserverpb::KV::Service {
 public:
  FaultyEndpoint(const NetNs& netns, const std::string& etcd_socket)
      : etcd_(etcdserverpb::KV::NewStub(
            grpc::CreateChannel("unix:" + etcd_socket, grpc::InsecureChannelCredentials()))) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", kFaultyPort),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = netns.Run([&] { return builder.BuildAndStart(); });
  }

  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* response) override {
    const bool writes = request->compare_size() > 0;
    if (writes && before_write) before_write();
    grpc::ClientContext context;
    const grpc::Status status = etcd_->Txn(&context, *request, response);
    if (!writes || lost_answers == 0) return status;
    --lost_answers;
    return {grpc::StatusCode::UNAVAILABLE, "answer lost"};
  }

  // Set before the requests.
  std::function<void()> before_write;
  std::atomic<int> lost_answers = 0;

 private:
  const std::unique_ptr<etcdserverpb::KV::Stub> etcd_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(EtcdTest, ATransactionOfManifestsIsAppliedOnceIfItsAnswerIsLost) {
  FaultyEndpoint faulty(*netns_, etcd_->socket());
  faulty.lost_answers = 1;
  const std::string url = absl::StrCat("http://127.0.0.1:", kFaultyPort);
  etcd_url_ = url + "," + url;
  ASSERT_OK_AND_ASSIGN(const CommandResult applied, FleetApply(api::ManifestYaml(Webs(1))));
  EXPECT_TRUE(applied.exit.ok()) << applied.err;
  EXPECT_THAT(applied.out, HasSubstr(absl::StrCat("seq ", writer_->seq() + 1, ", 2 changes in")));
  EXPECT_EQ(faulty.lost_answers, 0);
  ASSERT_OK(writer_->Adopt());
  EXPECT_EQ(RevisionOf(WebKey(0)), RevisionOf("/state/head"));

  // The answers of both endpoints are lost.
  faulty.lost_answers = 2;
  ASSERT_OK_AND_ASSIGN(const CommandResult unknown, FleetApply(api::ManifestYaml(Webs(2))));
  EXPECT_EQ(unknown.exit.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("error: etcd: 127.0.0.1:2377: answer lost\n"));
  EXPECT_THAT(unknown.err,
              HasSubstr("note: at least 0 of 2 changes were written; run the command"));
  ASSERT_OK_AND_ASSIGN(const CommandResult again, FleetApply(api::ManifestYaml(Webs(2))));
  EXPECT_THAT(again.out, HasSubstr(absl::StrCat("seq ", writer_->seq() + 1, ", no changes\n")));
}

TEST_F(EtcdTest, ManifestsAreNotAppliedAfterChangesOfAnotherWriter) {
  FaultyEndpoint faulty(*netns_, etcd_->socket());
  etcd_url_ = absl::StrCat("http://127.0.0.1:", kFaultyPort);
  const std::vector<std::function<void()>> changes = {
      [&] { EXPECT_OK(writer_->Write({})); },
      [&] {
        EXPECT_OK(etcd_->Control({"put", prefix_ + "/leader", "x"}));
      }};
  for (const std::function<void()>& change : changes) {
    faulty.before_write = change;
    ASSERT_OK_AND_ASSIGN(const CommandResult failed, FleetApply(api::ManifestYaml(Webs(1))));
    EXPECT_EQ(failed.exit.code, 4) << failed.out;
    EXPECT_THAT(failed.err, HasSubstr("another writer has written, or a Store was elected"));
    EXPECT_EQ(RevisionOf(WebKey(0)), 0);
  }
}

// The limit is below etcd's limit of 1.5 MiB for a transaction.
TEST_F(EtcdTest, AnObjectThatIsTooLargeIsNotApplied) {
  v1::Object large = ASlice("shop/s0").Named("s0").Port("tcp", 8080);
  v1::EndpointSlice& slice = *large.mutable_endpoint_slice();
  slice.set_address_type("IPv6");
  for (int n = 0; n < 1000; ++n) {
    v1::Endpoint& endpoint = *slice.add_endpoints();
    for (int i = 0; i < 40; ++i) {
      endpoint.add_addresses(absl::StrFormat("2001:db8:1111:2222:3333:4444:%04x:%04x", 1 + n, i));
    }
  }
  ASSERT_OK_AND_ASSIGN(const CommandResult applied,
                       FleetApply(api::ManifestYaml({large, Web(1, Ip(1))})));
  EXPECT_EQ(applied.exit.code, 1);
  EXPECT_THAT(applied.err, ContainsRegex("endpointslice/shop/s0: Too long: 1[0-9]{6} bytes: must "
                                         "have at most 1400000 bytes; not written"));
  EXPECT_EQ(RevisionOf(SliceKey(0)), 0);
  EXPECT_GT(RevisionOf(WebKey(1)), 0);
}

TEST_F(EtcdTest, ManifestsThatWouldDoHarmAreNotApplied) {
  ASSERT_OK(Put(Webs(1)));
  const int64_t head = RevisionOf("/state/head");
  const std::string good = api::ManifestYaml({Web(2, Ip(2))});
  Objects invalid = {Web(0, Ip(0)), Web(3, "10.96.0.300")};
  struct Case {
    std::string text;
    std::vector<std::string> flags;
    const char* error;
  };
  for (const Case& c : std::vector<Case>{
           {"", {"--prune"}, "the input contains no objects"},
           {"", {}, "no objects to apply; nothing was written"},
           {good + "---\nkind: [\n", {"--prune"}, "because a manifest cannot be read"},
           {good + "  colour: red\n", {"--strict"}, "because a field is unknown"},
           {api::ManifestYaml(invalid), {"--prune"}, "because an object is rejected"},
           {api::ManifestYaml({invalid[1]}),
            {},
            "fleet.yaml: document 1, line 1: Service shop/s3 "
            "rejected: spec.clusterIP: Invalid value: \"10.96.0.300\""}}) {
    ASSERT_OK_AND_ASSIGN(const CommandResult result, FleetApply(c.text, c.flags));
    EXPECT_EQ(result.exit.code, 1) << result.out;
    EXPECT_THAT(result.err, HasSubstr(c.error));
    EXPECT_EQ(RevisionOf("/state/head"), head) << c.error;
  }

  // A Store writes this key while it is elected.
  ASSERT_OK(etcd_->Control({"put", prefix_ + "/leader", R"({"name":"controller-1"})"}));
  ASSERT_OK_AND_ASSIGN(const CommandResult refused, FleetApply(good));
  EXPECT_EQ(refused.exit.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("/leader: a Store is the elected writer and replaces changes "
                                     "of other writers: \"{\\\"name\\\":\\\"controller-1\\\"}\"; "
                                     "nothing was written; use --force to write"));
  EXPECT_EQ(RevisionOf("/state/head"), head);
  ASSERT_OK_AND_ASSIGN(const CommandResult forced, FleetApply(good, {"--force"}));
  EXPECT_TRUE(forced.exit.ok()) << forced.err;
  EXPECT_GT(RevisionOf("/state/head"), head);
}

}  // namespace
}  // namespace svcmap::testing
