// Tests of `svcmapctl fleet` with a fake etcd.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/cli/fleet_observer.h"
#include "api/fleet/node_status.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Answers transactions that only read.
class FakeEtcd : public etcdserverpb::KV::Service {
 public:
  explicit FakeEtcd(std::map<std::string, std::string> values) : values_(std::move(values)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeEtcd() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* answer) override {
    answer->set_succeeded(true);
    for (const etcdserverpb::RequestOp& op : request->success()) {
      const etcdserverpb::RangeRequest& range = op.request_range();
      auto* found = answer->add_responses()->mutable_response_range();
      for (const auto& [key, value] : values_) {
        const bool in = range.range_end().empty() ? key == range.key()
                                                  : key >= range.key() && key < range.range_end();
        if (!in) continue;
        found->add_kvs()->set_key(key);
        found->mutable_kvs()->rbegin()->set_value(value);
      }
    }
    return grpc::Status::OK;
  }

  CtlResult Fleet(std::vector<std::string> args) const {
    args.insert(args.begin(), "fleet");
    args.insert(args.end(), {"--etcd-endpoints", absl::StrCat("http://127.0.0.1:", port_),
                             "--prefix", "/p", "--status-prefix", "/s"});
    return Ctl(args);
  }

 private:
  const std::map<std::string, std::string> values_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::string StatusWithAgent(const std::string& agent) {
  return fleet::ToJson(fleet::NodeStatus{.seq = 7,
                                         .epoch = 1,
                                         .revision = 40,
                                         .healthy = false,
                                         .reason = "svcmapd not synced",
                                         .rejected = 2,
                                         .held = false,
                                         .version = "1.2",
                                         .time = std::chrono::system_clock::now(),
                                         .agent = agent});
}

TEST(CliFleetTest, TheStatusOfAnUnreachableNodeIsPrinted) {
  const FakeEtcd etcd({{"/p/state/head", fleet::ToJson(fleet::Head{.seq = 9, .epoch = 1})},
                       {"/p/nodes/new", ""},
                       {"/s/nodes/local", StatusWithAgent("")},
                       {"/s/nodes/closed", StatusWithAgent("tcp://127.0.0.1:1")},
                       {"/s/nodes/wrong", StatusWithAgent("unix:///run/other.sock")}});
  const std::string to = "10.96.0.10:80";

  const CtlResult local = etcd.Fleet({"explain", "local", to, "--from", "node"});
  EXPECT_EQ(local.code, 3);
  EXPECT_EQ(local.out, "");
  EXPECT_THAT(local.err, HasSubstr("error: node local: etcd has no address of svcmapd"));
  EXPECT_THAT(local.err,
              HasSubstr("note: status of node local in etcd: behind,rejecting,unhealthy, seq 7 of "
                        "9, etcd revision 40, 2 rejected objects, written "));
  EXPECT_THAT(local.err, HasSubstr(" ago, reason: svcmapd not synced\n"));
  EXPECT_THAT(local.err, HasSubstr("note: run this command on the node: svcmapctl explain "
                                   "10.96.0.10:80 --from node\n"));

  const CtlResult closed = etcd.Fleet({"explain", "closed", to});
  EXPECT_EQ(closed.code, 3);
  EXPECT_THAT(closed.err, HasSubstr("error: cannot reach the agent at tcp://127.0.0.1:1: "));
  EXPECT_THAT(closed.err, HasSubstr("note: status of node closed in etcd: behind,rejecting"));

  // A node must not direct svcmapctl to a socket of the machine on which svcmapctl runs.
  const CtlResult wrong = etcd.Fleet({"explain", "wrong", to});
  EXPECT_EQ(wrong.code, 3);
  EXPECT_THAT(wrong.err, HasSubstr("\"unix:///run/other.sock\": must be tcp://HOST:PORT"));

  const CtlResult without_status = etcd.Fleet({"explain", "new", to});
  EXPECT_EQ(without_status.code, 3);
  EXPECT_THAT(without_status.err, HasSubstr("note: etcd has no valid status of node new\n"));

  const CtlResult unknown = etcd.Fleet({"explain", "other", to});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.err, "error: node other not found below /p/nodes/ and /s/nodes/\n");
}

const fleet::SystemTimePoint kStart{std::chrono::seconds(1'790'000'000)};

class FleetObserverTest : public ::testing::Test {
 protected:
  void Node(const std::string& name, uint64_t seq, uint64_t rejected = 0,
            const std::string& reason = "") {
    values_[name] = fleet::ToJson(fleet::NodeStatus{.seq = seq,
                                                    .epoch = 1,
                                                    .revision = 1,
                                                    .healthy = reason.empty(),
                                                    .reason = reason,
                                                    .rejected = rejected,
                                                    .held = false,
                                                    .version = "1",
                                                    .time = kStart});
  }
  // `step` is a step of the system clock since kStart.
  nlohmann::json Observe(uint64_t required, std::chrono::seconds time, uint64_t epoch = 1,
                         std::chrono::seconds step = 0s) {
    const auto now = kStart + time + step;
    return nlohmann::json::parse(
        observer_.Observe({.seq = 20, .epoch = epoch, .nonce = {}}, required,
                          fleet::Summarize(names_, values_, required, now), now,
                          std::chrono::steady_clock::time_point(time)));
  }

  std::set<std::string> names_;
  std::map<std::string, std::string> values_;
  FleetObserver observer_;
};

TEST_F(FleetObserverTest, LagIsCountedInTransactionsAndSeconds) {
  Node("a", 10);
  Node("b", 10, 3, "two\nlines");
  names_ = {"c"};
  nlohmann::json event = Observe(10, 0s);
  EXPECT_EQ(event["nodes"], nlohmann::json::parse(R"([
      {"name":"b","state":"rejecting,unhealthy","lag":0,"behind_seconds":0,"rejected":3,
       "age_seconds":0,"reason":"two\\nlines"},
      {"name":"c","state":"silent","lag":0,"behind_seconds":0,"rejected":0,
       "age_seconds":null,"reason":""}])"));
  EXPECT_EQ(event["rejected_objects"], 3);
  EXPECT_EQ(event["head_seq"], 20);
  EXPECT_EQ(event["time"], "2026-09-21T14:13:20Z");
  EXPECT_TRUE(event["changes"].empty());

  Observe(14, 10s);  // A request for seq 14.
  Node("b", 14);
  event = Observe(14, 25s);
  EXPECT_EQ(event["max_lag"], 4);
  EXPECT_EQ(event["max_behind_seconds"], 15);
  EXPECT_EQ(event["nodes"][0]["name"], "a");
  EXPECT_EQ(event["nodes"][0]["behind_seconds"], 15);
  Node("a", 14);
  event = Observe(14, 30s);
  EXPECT_EQ(event["max_behind_seconds"], 0);
  EXPECT_EQ(event["problems"], 1);
}

TEST_F(FleetObserverTest, StepsOfTheClockDoNotChangeTheTimeBehind) {
  Node("a", 10);
  Observe(14, 0s);
  EXPECT_EQ(Observe(14, 5s, 1, 1h)["max_behind_seconds"], 5);
  EXPECT_EQ(Observe(14, 10s, 1, -2h)["nodes"][0]["behind_seconds"], 10);
}

TEST_F(FleetObserverTest, TheLatestChangesAreKept) {
  Node("a", 10);
  Node("b", 10);
  Observe(10, 0s);
  Node("a", 10, 1);
  Node("n", 10);
  values_.erase("b");
  const nlohmann::json changes = Observe(10, 5s, /*epoch=*/2)["changes"];
  EXPECT_EQ(changes, nlohmann::json::parse(R"([
      {"time":"2026-09-21T14:13:25Z","text":"b: removed"},
      {"time":"2026-09-21T14:13:25Z","text":"n: new -> ok"},
      {"time":"2026-09-21T14:13:25Z","text":"a: ok -> rejecting"},
      {"time":"2026-09-21T14:13:25Z","text":"new writer, epoch 2"}])"));
  for (int i = 0; i < 50; ++i) Node(absl::StrCat("more", i), 10);
  EXPECT_EQ(Observe(10, 6s, 2)["changes"].size(), FleetObserver::kMaxChanges);
}

TEST_F(FleetObserverTest, TheSizeOfAnEventIsBounded) {
  Observe(10, 0s);
  const std::string wild(100'000, '\\');
  for (int i = 0; i < 300; ++i) Node(absl::StrCat(wild, i), 1, 1'000'000'000, wild + "\x01\xff");
  const nlohmann::json event = Observe(10, 1s);
  EXPECT_EQ(event["problems"], 300);
  EXPECT_EQ(event["nodes"].size(), FleetObserver::kMaxNodes);
  EXPECT_LT(event.dump().size(), size_t{256} << 10);
  EXPECT_GT(event.dump().size(), size_t{32} << 10);
}

}  // namespace
}  // namespace svcmap::api
