#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/kinds.h"
#include "nft/base/status.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"
#include "tests/support/etcd_server.h"
#include "tests/support/socket_address.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

namespace {

constexpr char kHead[] = "/state/head";

// Time limit for a request to one of several members.
constexpr std::chrono::seconds kMemberTimeout{2};

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
                                              const etcdserverpb::TxnRequest& request,
                                              std::chrono::seconds timeout = kHangLimit) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + OnThisMachine(timeout));
  etcdserverpb::TxnResponse response;
  const grpc::Status status = etcdserverpb::KV::NewStub(channel)->Txn(&context, request, &response);
  if (!status.ok()) return StatusOf(status);
  return response;
}

}  // namespace

EtcdServer::EtcdServer(const NetNs& netns, std::string folder, std::vector<std::string> flags,
                       int member, int members)
    : netns_(netns),
      folder_(std::move(folder)),
      flags_(std::move(flags)),
      member_(member),
      members_(members),
      address_(absl::StrCat("localhost:", member + 1)),
      socket_(folder_ + "/" + address_) {}

absl::StatusOr<std::unique_ptr<EtcdServer>> EtcdServer::Start(
    const NetNs& netns, const std::string& folder, const std::vector<std::string>& flags) {
  std::unique_ptr<EtcdServer> server(
      new EtcdServer(netns, folder, flags, /*member=*/0, /*members=*/1));
  if (absl::Status status = server->StartAgain(); !status.ok()) return status;
  return server;
}

absl::StatusOr<EtcdServer::Cluster> EtcdServer::StartCluster(const NetNs& netns,
                                                             const std::string& folder, int count) {
  Cluster servers;
  for (int member = 0; member < count; ++member) {
    servers.emplace_back(new EtcdServer(netns, folder, {}, member, count));
    if (absl::Status status = servers.back()->Launch(); !status.ok()) return status;
  }
  for (const auto& server : servers) {
    if (absl::Status status = server->AwaitReady(); !status.ok()) return status;
  }
  return servers;
}

std::string EtcdServer::PeerUrl(int member) const {
  return absl::StrCat("http://127.0.0.1:", EtcdPort(member) + 1);
}

std::vector<std::string> EtcdServer::ClusterFlags() const {
  std::vector<std::string> peers;
  for (int i = 0; i < members_; ++i) peers.push_back(absl::StrCat("n", i, "=", PeerUrl(i)));
  return {absl::StrCat("--name=n", member_),
          absl::StrCat("--data-dir=data-", member_, "-", restores_),
          "--initial-advertise-peer-urls=" + PeerUrl(member_),
          "--initial-cluster=" + absl::StrJoin(peers, ",")};
}

absl::Status EtcdServer::StartAgain() {
  if (absl::Status status = Launch(); !status.ok()) return status;
  return AwaitReady();
}

absl::Status EtcdServer::Launch() {
  const bool tls = absl::StrContains(absl::StrJoin(flags_, " "), "--cert-file");
  const std::string url = absl::StrCat(tls ? "https" : "http", "://127.0.0.1:", EtcdPort(member_));
  // etcd creates Unix sockets in its working directory.
  std::vector<std::string> argv = {"sh",
                                   "-c",
                                   "cd \"$0\" && rm -f " + address_ + " && exec etcd \"$@\"",
                                   folder_,
                                   "--listen-client-urls=" + url + ",unix://" + address_,
                                   "--advertise-client-urls=" + url,
                                   "--listen-peer-urls=" + PeerUrl(member_)};
  for (const auto& flags : {ClusterFlags(), flags_}) {
    argv.insert(argv.end(), flags.begin(), flags.end());
  }
  auto process = ChildProcess::Start({.argv = std::move(argv), .netns = &netns_});
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  return absl::OkStatus();
}

absl::Status EtcdServer::AwaitReady() {
  etcdserverpb::TxnRequest read;
  read.add_success()->mutable_request_range()->set_key("x");
  const std::shared_ptr<grpc::Channel> channel = ChannelTo(socket_);
  absl::Status status;
  WaitUntil([&] {
    status = Txn(channel, read).status();
    return !absl::IsUnavailable(status);
  });
  // With users, the request is rejected, but etcd works.
  if (status.ok() || absl::StrContains(status.message(), "user name is empty")) {
    return absl::OkStatus();
  }
  return absl::Status(status.code(),
                      absl::StrCat("etcd: ", status.message(), "\n", process_->err()));
}

absl::Status EtcdServer::Stop() {
  const absl::Status status = process_->Signal(SIGKILL);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  if (!process_->Wait(kHangLimit)) return absl::DeadlineExceededError("SIGKILL of etcd");
  return absl::OkStatus();
}

absl::StatusOr<bool> EtcdServer::IsLeader() {
  const absl::StatusOr<std::string> found = Control({"endpoint", "status", "-w", "fields"});
  if (!found.ok()) return found.status();
  const auto field = [&](const char* name) {
    const std::string start = absl::StrCat("\"", name, "\" : ");
    const size_t at = found->find(start);
    return at == std::string::npos
               ? ""
               : found->substr(at + start.size(), found->find('\n', at) - at - start.size());
  };
  const std::string leader = field("Leader");
  if (leader.empty()) return absl::InternalError("etcdctl endpoint status: " + *found);
  return leader == field("MemberID");
}

absl::StatusOr<std::string> EtcdServer::Control(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"sh", "-c", "cd \"$0\" && exec etcdctl \"$@\"", folder_,
                                   "--endpoints=unix://" + address_};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunOk({.argv = std::move(argv), .netns = &netns_, .env = {"ETCDCTL_API=3"}});
}

absl::Status EtcdServer::SaveBackup(const std::string& path) {
  return Control({"snapshot", "save", path}).status();
}

absl::Status EtcdServer::RestoreBackup(const std::string& path) {
  if (absl::Status status = Stop(); !status.ok()) return status;
  ++restores_;
  std::vector<std::string> restore = {"snapshot", "restore", path};
  for (const std::string& flag : ClusterFlags()) restore.push_back(flag);
  if (absl::Status status = Control(restore).status(); !status.ok()) return status;
  return StartAgain();
}

struct EtcdWriter::Impl {
  std::vector<std::shared_ptr<grpc::Channel>> channels;  // Of the members.
  size_t current = 0;

  const std::shared_ptr<grpc::Channel>& channel() const { return channels[current]; }

  // Sends the request to the next member if a member fails, so it may be applied several times.
  absl::StatusOr<etcdserverpb::TxnResponse> Send(const etcdserverpb::TxnRequest& request) {
    if (channels.size() == 1) return Txn(channel(), request);
    absl::StatusOr<etcdserverpb::TxnResponse> response;
    WaitUntil([&] {
      response = Txn(channel(), request, kMemberTimeout);
      const absl::Status& status = response.status();
      // A proposal that a leader has dropped has the code UNKNOWN.
      if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status) &&
          !absl::IsUnknown(status)) {
        return true;
      }
      current = (current + 1) % channels.size();
      return false;
    });
    return response;
  }
};

EtcdWriter::EtcdWriter(const std::string& socket, uint64_t epoch, std::string prefix)
    : impl_(std::make_unique<Impl>(Impl{{ChannelTo(socket)}})),
      epoch_(epoch),
      prefix_(std::move(prefix)) {}

EtcdWriter::EtcdWriter(const EtcdServer::Cluster& members, uint64_t epoch)
    : impl_(std::make_unique<Impl>()), epoch_(epoch), prefix_(kEtcdPrefix) {
  for (const auto& member : members) impl_->channels.push_back(ChannelTo(member->socket()));
}

EtcdWriter::~EtcdWriter() = default;

absl::Status EtcdWriter::Adopt() {
  etcdserverpb::TxnRequest read;
  read.add_success()->mutable_request_range()->set_key(absl::StrCat(prefix_, kHead));
  const auto response = impl_->Send(read);
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
  request.add_failure()->mutable_request_range()->set_key(absl::StrCat(prefix_, kHead));
  const auto response = impl_->Send(request);
  if (!response.ok()) return response.status();
  revision_ = response->header().revision();
  if (!response->succeeded()) {
    // If the answer of another member was lost, etcd has already applied the transaction.
    const auto& heads = response->responses(0).response_range().kvs();
    if (heads.empty() || heads[0].value() != *all.back().second) {
      return absl::AbortedError("another writer has written the head");
    }
    revision_ = heads[0].mod_revision();
  }
  head_revision_ = revision_;
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
  return impl_->Send(request).status();
}

absl::Status EtcdWriter::Compact() {
  grpc::ClientContext context;
  etcdserverpb::CompactionRequest request;
  request.set_revision(revision_);
  etcdserverpb::CompactionResponse response;
  return StatusOf(
      etcdserverpb::KV::NewStub(impl_->channel())->Compact(&context, request, &response));
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

namespace {

constexpr int kTickMs = 20;  // Interval for reading the flags.

UniqueFd TcpSocket() { return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Writes all bytes. Blocks while the receiver does not read.
bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpProxy>> TcpProxy::Start(const NetNs& netns, uint16_t port,
                                                          uint16_t destination) {
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse("127.0.0.1", port);
  if (!address.ok()) return address.status();
  UniqueFd listener = netns.Run([&] { return TcpSocket(); });
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.get(), address->get(), address->size()) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return ErrnoStatus(errno, "listen on 127.0.0.1");
  }
  return std::unique_ptr<TcpProxy>(new TcpProxy(netns, std::move(listener), destination));
}

TcpProxy::TcpProxy(const NetNs& netns, UniqueFd listener, uint16_t destination)
    : netns_(netns),
      listener_(std::move(listener)),
      destination_(destination),
      thread_([this] { Run(); }) {}

TcpProxy::~TcpProxy() {
  stopping_ = true;
  thread_.join();
}

void TcpProxy::Run() {
  int swallowed = 0;
  while (!stopping_) {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      for (const UniqueFd& end : pair.ends) polled.push_back({end.get(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kTickMs);
    if (refuse_) pairs_.clear();
    if (const int swallow = swallow_; swallowed != swallow) {
      swallowed = swallow;
      for (Pair& pair : pairs_) pair.swallows = true;
    }
    std::erase_if(pairs_, [this](Pair& pair) { return !Forward(pair); });
    if ((polled[0].revents & POLLIN) != 0) Accept();
  }
}

void TcpProxy::Accept() {
  UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client.ok() || refuse_) return;
  UniqueFd server = netns_.Run([] { return TcpSocket(); });
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse("127.0.0.1", destination_);
  if (!address.ok() || connect(server.get(), address->get(), address->size()) != 0) return;
  ++accepted_;
  Pair& pair = pairs_.emplace_back();
  pair.ends[0] = std::move(client);
  pair.ends[1] = std::move(server);
}

bool TcpProxy::Forward(Pair& pair) {
  char buffer[65536];
  for (int from = 0; from < 2; ++from) {
    const ssize_t size = recv(pair.ends[from].get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return false;
    auto& received = pair.received[from];
    const Clock::time_point now = Clock::now();
    if (size > 0 && !pair.swallows)
      received.emplace_back(now, std::string(buffer, static_cast<size_t>(size)));
    while (!received.empty() && now - received.front().first >= delay_.load()) {
      if (!WriteAll(pair.ends[1 - from].get(), received.front().second)) return false;
      received.pop_front();
    }
  }
  return true;
}

}  // namespace svcmap::testing
