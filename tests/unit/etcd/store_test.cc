#include "api/fleet/store.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"

namespace svcmap::fleet::test {
namespace {

// Grants leases, and answers all transactions with `txn_status` and an empty message.
class FakeEtcd : public etcdserverpb::KV::Service, public etcdserverpb::Lease::Service {
 public:
  FakeEtcd() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Lease::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~FakeEtcd() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string endpoint() const { return absl::StrCat("ipv4:127.0.0.1:", port_); }

  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest*,
                   etcdserverpb::TxnResponse*) override {
    return txn_status;
  }
  grpc::Status LeaseGrant(grpc::ServerContext* context, const etcdserverpb::LeaseGrantRequest*,
                          etcdserverpb::LeaseGrantResponse* answer) override {
    while (hangs && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    hangs = false;
    answer->set_id(++leases);
    return grpc::Status::OK;
  }

  grpc::Status txn_status;          // Set between requests.
  std::atomic<bool> hangs = false;  // The next LeaseGrant hangs.
  std::atomic<int> leases = 0;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(EtcdConnectionTest, AnEmptyAnswerIsAnError) {
  const FakeEtcd etcd;
  EtcdConnection connection({.endpoints = {etcd.endpoint()}, .tls = {}});
  etcdserverpb::TxnRequest read;
  read.add_success()->mutable_request_range()->set_key("x");
  const auto answer = connection.TxnAtAnyEndpoint(read, std::chrono::seconds(10));
  EXPECT_TRUE(absl::IsInternal(answer.status())) << answer.status();
  EXPECT_EQ(answer.status().message(), "etcd has answered incompletely");
}

TEST(StoreTest, ALeaseIsGrantedByAnyEndpoint) {
  FakeEtcd etcd;
  etcd.txn_status = {grpc::StatusCode::UNAVAILABLE, "no leader"};
  const std::string closed = "unix:/nonexistent";
  for (const std::string& other : {closed, etcd.endpoint()}) {
    etcd.leases = 0;
    etcd.hangs = other != closed;
    Store store({.endpoints = {other, other, other, etcd.endpoint()}, .tls = {}}, "/p", "store");
    EXPECT_FALSE(store.Set({}).ok());
    EXPECT_GE(etcd.leases, 1);
    const int leases = etcd.leases;
    EXPECT_FALSE(store.Set({}).ok());
    EXPECT_EQ(etcd.leases, leases) << "The lease has not been kept.";
  }
}

TEST(StoreTest, ALeaseIsKeptUntilEtcdReportsThatItDoesNotExist) {
  FakeEtcd etcd;
  Store store({.endpoints = {etcd.endpoint()}, .tls = {}}, "/p", "store");
  etcd.txn_status = {grpc::StatusCode::NOT_FOUND, "ca.crt: No such file or directory"};
  EXPECT_TRUE(absl::IsNotFound(store.Set({})));
  EXPECT_TRUE(absl::IsNotFound(store.Set({})));
  EXPECT_EQ(etcd.leases, 1);
  etcd.txn_status = {grpc::StatusCode::NOT_FOUND, "etcdserver: requested lease not found"};
  EXPECT_TRUE(absl::IsNotFound(store.Set({})));
  EXPECT_TRUE(absl::IsNotFound(store.Set({})));
  EXPECT_EQ(etcd.leases, 2);
}

}  // namespace
}  // namespace svcmap::fleet::test
