#include "tests/support/etcd_server.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/convert/kinds.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

constexpr char kHead[] = "/state/head";
constexpr char kPeer[] = "http://127.0.0.1:2380";

absl::Status StatusOf(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

absl::StatusOr<etcdserverpb::TxnResponse> Txn(const std::shared_ptr<grpc::Channel>& channel,
                                              const etcdserverpb::TxnRequest& request) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + kHangLimit);
  etcdserverpb::TxnResponse response;
  const grpc::Status status = etcdserverpb::KV::NewStub(channel)->Txn(&context, request, &response);
  if (!status.ok()) return StatusOf(status);
  return response;
}

}  // namespace

EtcdServer::EtcdServer(const NetNs& netns, std::string folder, std::vector<std::string> flags)
    : netns_(netns),
      folder_(std::move(folder)),
      flags_(std::move(flags)),
      socket_(folder_ + "/localhost:1") {}

absl::StatusOr<std::unique_ptr<EtcdServer>> EtcdServer::Start(
    const NetNs& netns, const std::string& folder, const std::vector<std::string>& flags) {
  std::unique_ptr<EtcdServer> server(new EtcdServer(netns, folder, flags));
  if (absl::Status status = server->StartAgain(); !status.ok()) return status;
  return server;
}

absl::Status EtcdServer::StartAgain() {
  const std::string url =
      absl::StrCat(flags_.empty() ? "http" : "https", "://127.0.0.1:", kEtcdPort);
  // etcd creates Unix sockets in its working directory.
  std::vector<std::string> argv = {"sh",
                                   "-c",
                                   "cd \"$0\" && rm -f localhost:1 && exec etcd \"$@\"",
                                   folder_,
                                   "--name=n",
                                   absl::StrCat("--data-dir=data-", restores_),
                                   "--listen-client-urls=" + url + ",unix://localhost:1",
                                   "--advertise-client-urls=" + url,
                                   absl::StrCat("--listen-peer-urls=", kPeer),
                                   absl::StrCat("--initial-advertise-peer-urls=", kPeer),
                                   absl::StrCat("--initial-cluster=n=", kPeer)};
  argv.insert(argv.end(), flags_.begin(), flags_.end());
  auto process = ChildProcess::Start({.argv = std::move(argv), .netns = &netns_});
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  etcdserverpb::TxnRequest read;
  read.add_success()->mutable_request_range()->set_key("x");
  const absl::Status status = Txn(ChannelTo(socket_), read).status();
  // With users, the request is rejected, but etcd works.
  if (status.ok() || absl::StrContains(status.message(), "user name is empty")) {
    return absl::OkStatus();
  }
  return absl::Status(status.code(),
                      absl::StrCat("etcd: ", status.message(), "\n", process_->err()));
}

absl::Status EtcdServer::Stop() {
  if (absl::Status status = process_->Signal(SIGKILL); !status.ok()) return status;
  if (!process_->Wait(kHangLimit)) return absl::DeadlineExceededError("SIGKILL of etcd");
  return absl::OkStatus();
}

absl::StatusOr<std::string> EtcdServer::Control(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"sh", "-c", "cd \"$0\" && exec etcdctl \"$@\"", folder_,
                                   "--endpoints=unix://localhost:1"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunOk({.argv = std::move(argv), .netns = &netns_, .env = {"ETCDCTL_API=3"}});
}

absl::Status EtcdServer::SaveBackup(const std::string& path) {
  return Control({"snapshot", "save", path}).status();
}

absl::Status EtcdServer::RestoreBackup(const std::string& path) {
  if (absl::Status status = Stop(); !status.ok()) return status;
  ++restores_;
  const absl::StatusOr<std::string> restored =
      Control({"snapshot", "restore", path, "--name=n", absl::StrCat("--data-dir=data-", restores_),
               absl::StrCat("--initial-advertise-peer-urls=", kPeer),
               absl::StrCat("--initial-cluster=n=", kPeer)});
  if (!restored.ok()) return restored.status();
  return StartAgain();
}

struct EtcdWriter::Impl {
  std::shared_ptr<grpc::Channel> channel;
};

EtcdWriter::EtcdWriter(const std::string& socket, uint64_t epoch, std::string prefix)
    : impl_(std::make_unique<Impl>(Impl{ChannelTo(socket)})),
      epoch_(epoch),
      prefix_(std::move(prefix)) {}

EtcdWriter::~EtcdWriter() = default;

absl::Status EtcdWriter::Adopt() {
  etcdserverpb::TxnRequest read;
  read.add_success()->mutable_request_range()->set_key(absl::StrCat(prefix_, kHead));
  const auto response = Txn(impl_->channel, read);
  if (!response.ok()) return response.status();
  const auto& pairs = response->responses(0).response_range().kvs();
  head_revision_ = pairs.empty() ? 0 : pairs[0].mod_revision();
  seq_ = 0;
  if (!pairs.empty() && sscanf(pairs[0].value().c_str(), "{\"format\":1,\"seq\":%lu", &seq_) != 1) {
    return absl::InternalError("head: " + pairs[0].value());
  }
  return absl::OkStatus();
}

absl::Status EtcdWriter::Write(const Values& values) {
  std::random_device random;
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare& compare = *request.add_compare();
  compare.set_target(etcdserverpb::Compare::MOD);
  compare.set_key(absl::StrCat(prefix_, kHead));
  compare.set_mod_revision(head_revision_);
  Values all = values;
  all.emplace_back(kHead, absl::StrCat("{\"format\":1,\"seq\":", seq_ + 1, ",\"epoch\":", epoch_,
                                       ",\"nonce\":\"", random(), random(), "\"}"));
  for (const auto& [key, value] : all) {
    etcdserverpb::RequestOp& op = *request.add_success();
    if (value) {
      op.mutable_request_put()->set_key(prefix_ + key);
      op.mutable_request_put()->set_value(*value);
    } else {
      op.mutable_request_delete_range()->set_key(prefix_ + key);
    }
  }
  const auto response = Txn(impl_->channel, request);
  if (!response.ok()) return response.status();
  if (!response->succeeded()) return absl::AbortedError("another writer has written the head");
  revision_ = head_revision_ = response->header().revision();
  ++seq_;
  return absl::OkStatus();
}

absl::Status EtcdWriter::Put(const Objects& objects) {
  Values values;
  for (const v1::Object& object : objects) values.emplace_back(EtcdKey(object), EtcdValue(object));
  return Write(values);
}

absl::Status EtcdWriter::Remove(const std::vector<std::string>& keys) {
  Values values;
  for (const std::string& key : keys) values.emplace_back(key, std::nullopt);
  return Write(values);
}

absl::Status EtcdWriter::WriteWithoutHead(const Values& values) {
  etcdserverpb::TxnRequest request;
  for (const auto& [key, value] : values) {
    etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(prefix_ + key);
    put.set_value(value.value_or(""));
  }
  return Txn(impl_->channel, request).status();
}

absl::Status EtcdWriter::Compact() {
  grpc::ClientContext context;
  etcdserverpb::CompactionRequest request;
  request.set_revision(revision_);
  etcdserverpb::CompactionResponse response;
  return StatusOf(etcdserverpb::KV::NewStub(impl_->channel)->Compact(&context, request, &response));
}

std::string EtcdKey(const v1::Object& object) {
  const api::KindInfo& kind = *api::FindKindOfField(object.object_case());
  const v1::ObjectMeta& metadata = *api::FindMetadata(object);
  if (object.has_node()) return "/nodes/" + metadata.name();
  return absl::StrCat("/state/", std::string(kind.plural), "/", metadata.namespace_(),
                      kind.namespaced ? "/" : "", metadata.name());
}

std::string EtcdValue(const v1::Object& object) {
  v1::Object copy = object;
  return api::MutableMessage(*api::FindKindOfField(object.object_case()), copy).SerializeAsString();
}

}  // namespace svcmap::testing
