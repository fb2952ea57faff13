#include "tests/protocol/target.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/status/status.h"

namespace svcmap::protocol {
namespace {

constexpr char kTcpScheme[] = "tcp://";
constexpr char kUnixScheme[] = "unix://";

std::string WithoutScheme(const Options& options) {
  return options.address.substr(std::strlen(options.is_unix() ? kUnixScheme : kTcpScheme));
}

// Returns the agent's address in gRPC syntax.
std::string ChannelTarget(const Options& options) {
  return (options.is_unix() ? "unix:" : "dns:///") + WithoutScheme(options);
}

int ConnectUnix(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

int ConnectTcp(const std::string& host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  std::string host = host_and_port.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo* found = nullptr;
  const addrinfo wanted = {.ai_socktype = SOCK_STREAM};
  if (getaddrinfo(host.c_str(), host_and_port.c_str() + colon + 1, &wanted, &found) != 0) return -1;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  return fd;
}

}  // namespace

std::string CodeName(grpc::StatusCode code) {
  return absl::StatusCodeToString(
      static_cast<absl::StatusCode>(code));  // Both enumerations have the same numbers.
}

std::string Text(const grpc::Status& status) {
  const std::string code = CodeName(status.error_code());
  return status.error_message().empty() ? code : code + ": " + status.error_message();
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

Target::Target(Options options) : options_(std::move(options)), epoch_(options_.epoch) {
  stub_ = v1::Control::NewStub(Connect());
}

std::shared_ptr<grpc::Channel> Target::Connect(
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Disables the bandwidth probe, so that the flow-control window stays small and unread data
  // remains in the agent.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel(ChannelTarget(options_), credentials, arguments);
}

std::shared_ptr<grpc::Channel> Target::Connect() const {
  return Connect(options_.ca.empty()
                     ? grpc::InsecureChannelCredentials()
                     : grpc::SslCredentials({options_.ca, options_.key, options_.certificate}));
}

int Target::ConnectSocket() const {
  const std::string where = WithoutScheme(options_);
  return options_.is_unix() ? ConnectUnix(where) : ConnectTcp(where);
}

grpc::Status Target::GetStatus(v1::GetStatusResponse* response) const {
  grpc::ClientContext context;
  SetDeadline(context);
  return stub_->GetStatus(&context, {}, response);
}

grpc::Status Target::Apply(const v1::Service& service, v1::Ack* ack) const {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ApplyRequest request;
  request.set_protocol_version(2);
  *request.add_objects()->mutable_service() = service;
  return stub_->Apply(&context, request, ack);
}

grpc::Status Target::List(State* state) const {
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = stub_->List(&context, {});
  Changes changes;
  for (v1::ListResponse part; reader->Read(&part);) {
    for (const v1::Object& object : part.objects()) {
      // The message Change contains all fields of Object.
      changes.emplace_back().ParseFromString(object.SerializeAsString());
    }
  }
  *state = StateOf(changes);
  return reader->Finish();
}

}  // namespace svcmap::protocol
