#include "api/daemon/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "api/daemon/options.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kMaxThreads = 32;
constexpr int kKeepaliveMilliseconds = 30000;
constexpr int kIdleMilliseconds = 300000;  // A client connects again when it has something to say.
constexpr int kMaxCalls = 100;             // On one connection, besides streams.
// A client that holds an idle connection would keep us waiting.
constexpr std::chrono::milliseconds kGrace{200};

uint64_t InodeOf(const std::string& path) {
  struct stat found = {};
  return lstat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

// Makes way for a socket at `path`.
absl::Status PrepareSocket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError("socket path " + path + " is longer than " +
                                      std::to_string(sizeof(address.sun_path) - 1) + " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return ErrnoStatus(error.value(), "create the folder of " + path);

  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0) return absl::OkStatus();
  if (!S_ISSOCK(found.st_mode)) return absl::AlreadyExistsError(path + " is there, not a socket");
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    return absl::AlreadyExistsError("another process listens on " + path);
  }
  if (unlink(path.c_str()) != 0) return ErrnoStatus(errno, "remove the old socket " + path);
  return absl::OkStatus();
}

// Of connections on which nothing happens, and of calls on one: they take descriptors and memory.
void LimitConnections(const PushLimits& limits, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(limits.greet_within.count()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits.max_streams) + kMaxCalls);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const std::vector<std::string>& listen,
                                                      bool insecure, const PushLimits& limits,
                                                      ControlService& service) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.max_batch_bytes));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  LimitConnections(limits, builder);
  grpc::ResourceQuota quota("svcmapd");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);

  std::unique_ptr<Server> server(new Server());
  std::vector<int> ports(listen.size());
  for (size_t i = 0; i < listen.size(); ++i) {
    const absl::StatusOr<std::string> address = GrpcAddress(listen[i], insecure);
    if (!address.ok()) return address.status();
    if (address->starts_with(kUnixPrefix)) {
      const std::string path = address->substr(kUnixPrefix.size());
      if (const absl::Status ready = PrepareSocket(path); !ready.ok()) return ready;
      server->sockets_.push_back({path, 0});
    }
    builder.AddListeningPort(*address, grpc::InsecureServerCredentials(), &ports[i]);
  }
  const mode_t mask = umask(0177);  // Sockets get 0600 from the start.
  server->server_ = builder.BuildAndStart();
  umask(mask);
  for (Socket& socket : server->sockets_) socket.inode = InodeOf(socket.path);
  for (size_t i = 0; i < listen.size(); ++i) {
    if (!server->server_ || ports[i] == 0) {
      return absl::UnavailableError("cannot listen on " + listen[i]);
    }
    spdlog::info("listening on {}", listen[i]);
  }
  return server;
}

Server::~Server() {
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + kGrace);
  for (const Socket& socket : sockets_) {
    if (InodeOf(socket.path) == socket.inode) unlink(socket.path.c_str());
  }
}

}  // namespace svcmap::api
