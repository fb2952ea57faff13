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
#include "api/fleet/node_status.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

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

}  // namespace
}  // namespace svcmap::api
