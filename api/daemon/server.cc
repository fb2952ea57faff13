#include "api/daemon/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "api/convert/quote.h"
#include "api/daemon/tls_credentials.h"
#include "api/grpc/grpc_log.h"
#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

constexpr int kMaxThreads = 32;
constexpr int kKeepaliveMilliseconds = 30000;
constexpr int kIdleMilliseconds = 300000;
// Minimum time between keepalive pings of a client without calls. gRPC's default is 5 minutes.
constexpr int kClientPingMilliseconds = 5000;
constexpr int kMaxCalls = 100;  // Per connection, in addition to push streams.
// Time for open calls to finish at exit. Without a deadline, an idle connection would delay the
// exit.
constexpr std::chrono::milliseconds kGrace{200};

constexpr char kAnonymous[] = "without a certificate";
constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kEverybody = 0666;

CertificateNames NamesOf(const grpc::AuthContext& peer) {
  const auto all = [&](const char* property) {
    std::vector<std::string> values;
    for (const grpc::string_ref& value : peer.FindPropertyValues(property)) {
      values.emplace_back(value.data(), value.size());
    }
    return values;
  };
  return {.uris = all(GRPC_PEER_URI_PROPERTY_NAME),
          .dns = all(GRPC_PEER_DNS_PROPERTY_NAME),
          .ips = all(GRPC_PEER_IP_PROPERTY_NAME)};
}

GuardedControl::Caller CallerByCertificate(const AllowList& allow,
                                           const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (!peer || !peer->IsPeerAuthenticated()) return {Role::kNone, kAnonymous};
  const CertificateNames names = NamesOf(*peer);
  return {RoleOf(allow, names), Escape(DisplayName(names))};
}

// Limits idle connections and the calls of a connection, because they use descriptors and memory.
void LimitConnections(const PushLimits& limits, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(limits.greet_within.count()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits.max_streams) + kMaxCalls);
}

}  // namespace

void Server::ReaderNames::Set(int fd, uid_t uid) {
  const std::lock_guard lock(mutex_);
  uids_["fd:" + std::to_string(fd)] = uid;
}

std::string Server::ReaderNames::Of(const std::string& peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = uids_.find(peer);
  return found == uids_.end() ? peer : "uid " + std::to_string(found->second);
}

Server::Server(const PushLimits& limits, ControlService& service)
    : limits_(limits), service_(service) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ListenOptions& options,
                                                      const PushLimits& limits,
                                                      ControlService& service) {
  if (const absl::Status sound = CheckListeners(options); !sound.ok()) return sound;
  FollowGrpcLog();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  std::unique_ptr<Server> server(new Server(limits, service));
  server->quota_ = std::make_unique<grpc::ResourceQuota>("svcmapd");
  server->quota_->SetMaxThreads(kMaxThreads);
  std::vector<Port> ports;
  std::vector<std::string> paths;
  for (const std::string& listen : options.listen) {
    const absl::StatusOr<ListenAddress> address = ParseListenAddress(listen);
    if (!address.ok()) return address.status();
    if (address->is_unix) {
      paths.push_back(address->text);
      continue;
    }
    ports.push_back({listen, address->text, grpc::InsecureServerCredentials()});
    if (options.insecure) continue;
    const auto credentials = TlsListenerCredentials::Load(options.tls);
    if (!credentials.ok()) return credentials.status();
    ports.back().credentials = *credentials;
  }
  absl::Status status;
  if (!ports.empty()) status = server->StartTcp(options, ports);
  if (status.ok() && !paths.empty()) status = server->StartUnix(options.allow, paths);
  if (!status.ok()) return status;
  for (const std::string& listen : options.listen) {
    spdlog::info("listening for controllers address={}", LogValue(listen));
  }
  return server;
}

absl::Status Server::StartTcp(const ListenOptions& options, const std::vector<Port>& ports) {
  if (options.insecure) {
    spdlog::warn("--insecure: any client can read all Services and endpoints address={}",
                 LogValue(ports.front().listen));
    return StartOne(
               [](const grpc::ServerContextBase&) {
                 return GuardedControl::Caller{Role::kRead, kAnonymous};
               },
               ports)
        .status();
  }
  if (!options.allow.has_names()) {
    spdlog::warn(
        "--allow-write not set: any client with a certificate of this CA can write path={}",
        LogValue(options.tls.ca));
  }
  return StartOne(
             [allow = options.allow](const grpc::ServerContextBase& context) {
               return CallerByCertificate(allow, context);
             },
             ports)
      .status();
}

absl::Status Server::StartUnix(const AllowList& allow, const std::vector<std::string>& paths) {
  const absl::StatusOr<grpc::Server*> writers = StartOne(
      [](const grpc::ServerContextBase& context) {
        return GuardedControl::Caller{Role::kWrite, context.peer()};
      },
      {});
  if (!writers.ok()) return writers.status();
  grpc::Server* readers = nullptr;
  if (!allow.read_uids.empty()) {
    const absl::StatusOr<grpc::Server*> started = StartOne(
        [this](const grpc::ServerContextBase& context) {
          return GuardedControl::Caller{Role::kRead, readers_.Of(context.peer())};
        },
        {});
    if (!started.ok()) return started.status();
    readers = *started;
  }
  const auto take = [=, this, writers = *writers, own = geteuid()](UniqueFd connection, uid_t uid) {
    switch (RoleOf(allow, own, uid)) {
      case Role::kNone: {
        const std::string client = "uid " + std::to_string(uid);
        service_.refusals().Add(client, "connection closed client=" + LogValue(client) + " error=" +
                                            LogValue(RefusalText("connection to the Unix socket",
                                                                 client, Role::kNone)));
        return;
      }
      case Role::kRead:
        readers_.Set(connection.get(), uid);
        return grpc::AddInsecureChannelFromFd(readers, connection.Release());
      case Role::kWrite:
        return grpc::AddInsecureChannelFromFd(writers, connection.Release());
    }
  };
  auto listener = UnixListener::Start(paths, allow.has_uids() ? kEverybody : kOwnerOnly, take);
  if (!listener.ok()) return listener.status();
  unix_ = *std::move(listener);
  return absl::OkStatus();
}

absl::StatusOr<grpc::Server*> Server::StartOne(GuardedControl::Identify identify,
                                               const std::vector<Port>& ports) {
  guards_.push_back(std::make_unique<GuardedControl>(service_, std::move(identify)));
  grpc::ServerBuilder builder;
  builder.RegisterService(guards_.back().get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits_.max_batch_bytes));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  // Includes connections without any data: gRPC waits for their first bytes without a deadline.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kClientPingMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  LimitConnections(limits_, builder);
  builder.SetResourceQuota(*quota_);
  std::vector<int> bound(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(ports[i].address, ports[i].credentials, &bound[i]);
    credentials_.push_back(ports[i].credentials);
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!server || bound[i] == 0) {
      return absl::UnavailableError("cannot listen on " + ports[i].listen);
    }
  }
  if (!server) return absl::InternalError("cannot start the gRPC server for Unix sockets");
  servers_.push_back(std::move(server));
  return servers_.back().get();
}

Server::~Server() {
  unix_.reset();  // Must stop first because its thread passes connections to the servers.
  const auto deadline = std::chrono::system_clock::now() + kGrace;
  for (const std::unique_ptr<grpc::Server>& server : servers_) server->Shutdown(deadline);
}

}  // namespace svcmap::api
