#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/status/status.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {

Session::Session(const Target& target) : stub_(target.stub()) { Start(); }

Session::Session(std::unique_ptr<v1::Control::Stub> stub) : own_(std::move(stub)), stub_(*own_) {
  Start();
}

void Session::Start() {
  SetDeadline(context_);
  stream_ = stub_.Push(&context_);
}

Session::~Session() {
  if (status_) return;
  context_.TryCancel();
  (void)stream_->Finish();
}

v1::PushRequest Session::OpenRequest(const Target& target, const std::string& state_token) {
  v1::PushRequest request;
  v1::Open& open = *request.mutable_open();
  open.set_name(kController);
  open.set_protocol_version(2);
  open.set_epoch(target.epoch());
  open.set_state_token(state_token);
  return request;
}

bool Session::Write(const v1::PushRequest& request) { return !status_ && stream_->Write(request); }

std::optional<v1::PushResponse> Session::Read() {
  v1::PushResponse response;
  if (status_ || !stream_->Read(&response)) return std::nullopt;
  return response;
}

v1::Opened Session::Open(const Target& target, const std::string& state_token) {
  Write(OpenRequest(target, state_token));
  const auto response = Read();
  return response ? response->opened() : v1::Opened();
}

bool Session::Begin() {
  v1::PushRequest request;
  request.mutable_snapshot_begin();
  return Write(request);
}

bool Session::Batch(uint64_t number, const Changes& changes) {
  v1::PushRequest request;
  request.mutable_batch()->set_number(number);
  for (const v1::Change& change : changes) *request.mutable_batch()->add_changes() = change;
  return Write(request);
}

bool Session::End(uint64_t number) {
  v1::PushRequest request;
  request.mutable_snapshot_end()->set_number(number);
  request.mutable_snapshot_end()->set_accept_removals(true);
  return Write(request);
}

v1::Ack Session::Ack() {
  const auto response = Read();
  return response ? response->ack() : v1::Ack();
}

grpc::Status Session::HalfClose() {
  if (!status_) stream_->WritesDone();
  return Finish();
}

grpc::Status Session::Finish() {
  if (!status_) {
    while (Read()) {
    }
    status_ = stream_->Finish();
  }
  return *status_;
}

std::string Replace(const Target& target, const Changes& objects, Verdict& verdict) {
  Session session(target);
  session.Open(target);
  session.Begin();
  session.Batch(1, objects);
  session.End(2);
  session.Ack();
  const v1::Ack end = session.Ack();
  const bool good = end.outcome() == v1::COMMITTED || end.outcome() == v1::UNCHANGED;
  const grpc::Status status = session.HalfClose();
  verdict.That(good && status.ok(), "for the initial snapshot Ack{2, COMMITTED or UNCHANGED}",
               end.ShortDebugString() + ", " + Text(status));
  return end.state_token();
}

void ExpectStored(const Target& target, const State& expected, const std::string& when,
                  Verdict& verdict) {
  State held;
  const grpc::Status status = target.List(&held);
  verdict.Equal("List " + when + ":", "OK", Text(status));
  verdict.That(held == expected,
               when + " exactly " + std::to_string(expected.size()) + " objects in List",
               Difference(expected, held));
}

void ExpectAck(const v1::Ack& ack, uint64_t number, v1::Outcome outcome, Verdict& verdict) {
  verdict.That(ack.number() == number && ack.outcome() == outcome,
               "Ack{" + std::to_string(number) + ", " + v1::Outcome_Name(outcome) + "}",
               ack.ShortDebugString());
}

void ExpectAlive(const Target& target, const std::string& when, Verdict& verdict) {
  v1::GetStatusResponse response;
  verdict.Equal("GetStatus " + when + ":", "OK", Text(target.GetStatus(&response)));
}

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

namespace {

// Serializes a message deterministically, so that equal messages produce equal bytes.
std::string Serialized(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

v1::Service Service(const std::string& name, int ip, const std::string& note) {
  v1::Service service;
  service.mutable_metadata()->set_namespace_(kNamespace);
  service.mutable_metadata()->set_name(name);
  if (!note.empty()) {
    service.mutable_status()->mutable_load_balancer()->add_ingress()->set_hostname(note);
  }
  service.mutable_spec()->set_cluster_ip("198.18.0." + std::to_string(ip));
  v1::ServicePort& port = *service.mutable_spec()->add_ports();
  port.set_name("http");
  port.set_port(80);
  return service;
}

v1::EndpointSlice Slice(const std::string& name, const std::string& service, int ip) {
  v1::EndpointSlice slice;
  slice.mutable_metadata()->set_namespace_(kNamespace);
  slice.mutable_metadata()->set_name(name);
  (*slice.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = service;
  slice.set_address_type("IPv4");
  v1::EndpointPort& port = *slice.add_ports();
  port.set_name("http");
  port.set_port(8080);
  slice.add_endpoints()->add_addresses("198.19.0." + std::to_string(ip));
  return slice;
}

v1::Change Put(v1::Service service) {
  v1::Change change;
  *change.mutable_service() = std::move(service);
  return change;
}

v1::Change Put(v1::EndpointSlice slice) {
  v1::Change change;
  *change.mutable_endpoint_slice() = std::move(slice);
  return change;
}

v1::Change RemoveService(const std::string& name) {
  v1::Change change;
  change.mutable_remove()->set_kind(v1::KIND_SERVICE);
  change.mutable_remove()->set_namespace_(kNamespace);
  change.mutable_remove()->set_name(name);
  return change;
}

State After(State state, const Changes& changes) {
  for (const v1::Change& change : changes) {
    if (change.has_service()) {
      state["service " + change.service().metadata().name()] = Serialized(change.service());
    } else if (change.has_endpoint_slice()) {
      const v1::EndpointSlice& slice = change.endpoint_slice();
      state["slice " + slice.metadata().name()] = Serialized(slice);
    } else if (change.has_remove()) {
      state.erase("service " + change.remove().name());
    }
  }
  return state;
}

State StateOf(const Changes& changes) { return After({}, changes); }

std::string Difference(const State& expected, const State& saw) {
  std::string text;
  for (const auto& [name, bytes] : expected) {
    const auto found = saw.find(name);
    if (found == saw.end()) {
      text += " without " + name;
    } else if (found->second != bytes) {
      text += " another " + name;
    }
  }
  for (const auto& [name, bytes] : saw) {
    if (!expected.contains(name)) text += " also " + name;
  }
  return text.empty() ? "the same" : text.substr(1);
}

}  // namespace svcmap::protocol
