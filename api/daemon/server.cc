#include "api/daemon/server.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <thread>

#include "api/convert/quote.h"
#include "api/log/log_value.h"
#include "api/screen/rejections.h"

namespace svcmap::api {
namespace {

constexpr size_t kWriterCalls = 32;
constexpr size_t kReaderCalls = 16;
constexpr int kReflectionThreads = 8;
constexpr int kKeepaliveMilliseconds = 30000;
constexpr int kIdleMilliseconds = 300000;
// Minimum time between keepalive pings from a client without calls. gRPC's default is 5 minutes.
constexpr int kClientPingMilliseconds = 5000;
// Maximum number of calls on one connection, in addition to streams.
constexpr uint32_t kMaxCalls = 100;
// Maximum number of streams and calls on one connection of a client that may only read or has no
// role.
constexpr uint32_t kReaderStreams = 10;
constexpr int kReaderMessageBytes = 32 * 1024;
constexpr int kReaderMetadataBytes = 4 * 1024;
// Time for open calls to finish at exit. Without a deadline, idle connections delay the exit.
constexpr std::chrono::milliseconds kGrace{200};

constexpr char kAnonymous[] = "without a certificate";
constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kEverybody = 0666;

bool HasUnix(const std::vector<ListenAddress>& addresses) {
  return std::any_of(addresses.begin(), addresses.end(), std::mem_fn(&ListenAddress::is_unix));
}

bool HasTcp(const std::vector<ListenAddress>& addresses) {
  return !std::all_of(addresses.begin(), addresses.end(), std::mem_fn(&ListenAddress::is_unix));
}

absl::StatusOr<std::unique_ptr<TlsServer>> LoadTls(const TlsFiles& files) {
  return TlsServer::Load(files, {.certificate = "--tls-cert " + files.certificate,
                                 .key = "--tls-key " + files.key,
                                 .ca = "--tls-client-ca " + files.ca});
}

// Writes gRPC's errors to svcmapd's log, at most one line per second. gRPC reports some errors only
// through its log function.
void LogGrpcError(gpr_log_func_args* arguments) {
  if (arguments->severity != GPR_LOG_SEVERITY_ERROR) return;
  static RejectedCalls errors;
  errors.Add("gRPC", "gRPC error error=" + LogValue(std::string_view(arguments->message)));
}

uint32_t WriterStreams(const PushLimits& limits) { return limits.max_streams + kMaxCalls; }

}  // namespace

void Server::Peers::Set(int fd, const Peer& peer) {
  const std::lock_guard lock(mutex_);
  peers_["fd:" + std::to_string(fd)] = peer;
}

Peer Server::Peers::Of(const std::string& connection) const {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(connection);
  return found == peers_.end() ? Peer{connection, connection} : found->second;
}

Server::Server(const PushLimits& limits, ControlService& service)
    : limits_(limits), service_(service) {}

absl::Status Server::Check(const ListenOptions& options) {
  const absl::StatusOr<std::vector<ListenAddress>> addresses = ParseListeners(options);
  if (!addresses.ok()) return addresses.status();
  if (HasTcp(*addresses) && !options.insecure) {
    if (absl::Status tls = LoadTls(options.tls).status(); !tls.ok()) return tls;
  }
  return Listener::Check(*addresses);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ListenOptions& options,
                                                      const PushLimits& limits,
                                                      ControlService& service) {
  const absl::StatusOr<std::vector<ListenAddress>> addresses = ParseListeners(options);
  if (!addresses.ok()) return addresses.status();
  const bool has_tcp = HasTcp(*addresses);
  gpr_set_log_function(LogGrpcError);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  std::unique_ptr<Server> server(new Server(limits, service));
  absl::Status status = server->StartServers(options, HasUnix(*addresses), has_tcp);
  if (status.ok()) status = server->StartScreen(options, has_tcp);
  if (status.ok()) status = server->StartListener(options, *addresses);
  if (!status.ok()) return status;
  for (const std::string& listen : options.listen) {
    spdlog::info("listening for controllers address={}", LogValue(listen));
  }
  return server;
}

absl::Status Server::StartServers(const ListenOptions& options, bool has_unix, bool has_tcp) {
  const AllowList& allow = options.allow;
  const bool has_tls = has_tcp && !options.insecure;
  const bool writers = has_unix || has_tls;
  const bool readers = (has_tcp && options.insecure) || (has_unix && !allow.read_uids.empty()) ||
                       (has_tls && !allow.read_names.empty());
  const bool others = has_tls && allow.has_names();
  for (const auto& [role, needed] :
       {std::pair(Role::kWrite, writers), std::pair(Role::kRead, readers),
        std::pair(Role::kNone, others)}) {
    if (!needed) continue;
    if (absl::Status status = StartOne(role); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Server::StartScreen(const ListenOptions& options, bool has_tcp) {
  ScreenOptions screen;
  screen.connections = {.max_connections = limits_.max_connections,
                        .max_connections_per_peer = limits_.max_connections_per_peer};
  screen.greet_within = limits_.greet_within;
  screen.unread_within = limits_.unread_within;
  screen.writers.max_streams = WriterStreams(limits_);
  screen.readers.max_streams = kReaderStreams;
  screen.hand_over = [this](UniqueFd connection, const Peer& peer) {
    const auto server = servers_.find(peer.role);
    if (server == servers_.end()) return;
    peers_.Set(connection.get(), peer);
    grpc::AddInsecureChannelFromFd(server->second.get(), connection.Release());
  };
  screen.identify = [allow = options.allow](const CertificateNames& names) {
    return Peer{Escape(LimitKey(names)), Escape(DisplayName(names)), RoleOf(allow, names)};
  };
  if (has_tcp && !options.insecure) {
    absl::StatusOr<std::unique_ptr<TlsServer>> tls = LoadTls(options.tls);
    if (!tls.ok()) return tls.status();
    screen.tls = *std::move(tls);
  }
  absl::StatusOr<std::unique_ptr<Screen>> started =
      Screen::Start(std::move(screen), service_.rejections());
  if (!started.ok()) return started.status();
  screen_ = *std::move(started);
  service_.rejections().SetConnections([this] { return screen_->connections(); });
  return absl::OkStatus();
}

absl::Status Server::StartListener(const ListenOptions& options,
                                   const std::vector<ListenAddress>& addresses) {
  const auto tcp = std::ranges::find_if_not(addresses, std::mem_fn(&ListenAddress::is_unix));
  if (tcp != addresses.end() && options.insecure) {
    spdlog::warn("--insecure: any client can read all Services and endpoints address={}",
                 LogValue("tcp://" + tcp->text));
  } else if (tcp != addresses.end() && !options.allow.has_names()) {
    spdlog::warn(
        "--allow-write not set: any client with a certificate from this CA can write path={}",
        LogValue(options.tls.ca));
  }
  auto listener = Listener::Start(
      addresses, options.allow.has_uids() ? kEverybody : kOwnerOnly,
      [this, tls = !options.insecure](UniqueFd connection, const std::string& client) {
        if (tls) {
          screen_->AddTls(std::move(connection), client);
        } else {
          screen_->Add(std::move(connection), {client, kAnonymous, Role::kRead});
        }
      },
      [this, allow = options.allow](UniqueFd connection, uid_t uid) {
        TakeUnix(allow, std::move(connection), uid);
      });
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  return absl::OkStatus();
}

void Server::TakeUnix(const AllowList& allow, UniqueFd connection, uid_t uid) {
  const std::string client = "uid " + std::to_string(uid);
  const uid_t own = geteuid();
  const Role role = RoleOf(allow, own, uid);
  if (role == Role::kNone) {
    service_.rejected_calls().Add(
        client, "connection closed client=" + LogValue(client) + " error=" +
                    LogValue(RejectionText("connection to the Unix socket", client, Role::kNone)));
    return;
  }
  screen_->Add(std::move(connection), {client, client, role, uid == 0 || uid == own});
}

absl::Status Server::StartOne(Role role) {
  const auto identify = [this, role](const grpc::ServerContextBase& context) {
    Peer peer = peers_.Of(context.peer());
    peer.role = role;
    return peer;
  };
  guards_.push_back(std::make_unique<GuardedControl>(
      service_, identify, role == Role::kWrite ? kWriterCalls : kReaderCalls, limits_.read_within));
  grpc::ServerBuilder builder;
  builder.RegisterService(guards_.back().get());
  builder.SetMaxReceiveMessageSize(role == Role::kWrite ? static_cast<int>(limits_.max_batch_bytes)
                                                        : kReaderMessageBytes);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  // gRPC also pings connections without calls, and closes connections that do not respond.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kClientPingMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  const uint32_t streams = role == Role::kWrite ? WriterStreams(limits_) : kReaderStreams;
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(streams));
  // Readers send only small requests. BDP probing would enlarge flow-control windows, which speeds
  // up only long transfers.
  if (role != Role::kWrite) {
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kReaderMetadataBytes);
  }
  // gRPC 1.51 checks the size of a compressed message only after it has decompressed the message
  // completely. Clients receive UNIMPLEMENTED for messages in a disabled encoding.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  // Only reflection uses threads of gRPC, one for each open stream.
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(kReflectionThreads);
  builder.SetResourceQuota(quota);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return absl::InternalError("gRPC cannot start a server");
  servers_.emplace(role, std::move(server));
  return absl::OkStatus();
}

Server::~Server() {
  // The listener is stopped first because the listener passes connections to screen_.
  listener_.reset();
  const auto deadline = std::chrono::system_clock::now() + kGrace;
  // After `deadline`, clients have time to receive the status of each stream that ended. Shutdown
  // waits without a limit for connections whose clients do not read, until Drain shuts them down.
  std::thread drain([this] {
    if (screen_) screen_->Drain(2 * kGrace);
  });
  for (const auto& [role, server] : servers_) server->Shutdown(deadline);
  drain.join();
  if (screen_) service_.rejections().SetConnections(nullptr);
  screen_.reset();
}

}  // namespace svcmap::api
