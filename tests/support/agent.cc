#include "tests/support/agent.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nft/base/unique_fd.h"
#include "svcmap/v1/control.grpc.pb.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/topology.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kStartTimeout{20};
constexpr seconds kCallTimeout{30};
// Timeout of streams and dumps. A dump may contain a million lines.
constexpr seconds kStreamTimeout{120};
constexpr size_t kSnapshotBatch = 1000;

absl::Status FromGrpc(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return absl::OkStatus();
  // Status codes of gRPC and absl have the same numbers.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(what, ": ", status.error_message()));
}

bool AcceptsConnections(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// Returns true if `flags` contain "--option" or "--option=VALUE".
bool Has(const std::vector<std::string>& flags, const std::string& option) {
  return std::any_of(flags.begin(), flags.end(), [&](const std::string& flag) {
    return flag == option || flag.rfind(option + "=", 0) == 0;
  });
}

// Builds the command line of svcmapd. Uses `state_folder` unless `flags` contain --state-dir.
std::vector<std::string> Argv(const std::vector<std::string>& flags,
                              const std::string& state_folder) {
  std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmapd", "--node-name", kAgentNode};
  argv.insert(argv.end(), flags.begin(), flags.end());
  if (!Has(flags, "--state-dir")) argv.insert(argv.end(), {"--state-dir", state_folder});
  return argv;
}

}  // namespace

absl::Status CheckAck(const v1::Ack& ack) {
  if (ack.outcome() != v1::COMMITTED && ack.outcome() != v1::UNCHANGED) {
    return absl::InternalError(
        absl::StrCat("acked as ", v1::Outcome_Name(ack.outcome()), " ", ack.error()));
  }
  for (const v1::ObjectResult& result : ack.results()) {
    if (result.severity() == v1::REFUSED) return absl::InternalError(result.message());
  }
  return absl::OkStatus();
}

struct Agent::Impl {
  const NetNs* netns = nullptr;
  TemporaryFolder folder;
  std::unique_ptr<ChildProcess> child;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Control::Stub> stub;

  explicit Impl(TemporaryFolder folder) : folder(std::move(folder)) {}

  std::string path() const { return folder.path() + "/agent.sock"; }

  absl::Status WithLog(const absl::Status& status) const {
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat(std::string(status.message()), "\nsvcmapd says:\n",
                                     child ? child->err() : ""));
  }

  absl::Status WaitUntilItAnswers() {
    const auto deadline = steady_clock::now() + OnThisMachine(kStartTimeout);
    while (!AcceptsConnections(path())) {
      if (const auto exit = child->Wait(milliseconds(2))) {
        return absl::UnavailableError(absl::StrCat("svcmapd ended: ", exit->ToString()));
      }
      if (steady_clock::now() > deadline) {
        return absl::DeadlineExceededError("svcmapd does not listen on " + path());
      }
    }
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel =
        grpc::CreateCustomChannel("unix:" + path(), grpc::InsecureChannelCredentials(), arguments);
    stub = v1::Control::NewStub(channel);
    v1::GetStatusResponse response;
    return Call(&v1::Control::Stub::GetStatus, v1::GetStatusRequest(), &response, "GetStatus");
  }

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*),
                    const Request& request, Response* response, const char* what) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + OnThisMachine(kCallTimeout));
    return WithLog(FromGrpc((stub.get()->*method)(&context, request, response), what));
  }
};

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Agent::~Agent() = default;

absl::StatusOr<std::unique_ptr<Agent>> Agent::Launch(const NetNs& netns,
                                                     const std::vector<std::string>& flags,
                                                     const std::string& program) {
  absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  auto impl = std::make_unique<Impl>(*std::move(folder));
  impl->netns = &netns;
  std::vector<std::string> all = {"--listen", "unix://" + impl->path()};
  if (!Has(flags, "--cluster-cidr")) {
    all.insert(all.end(), {"--cluster-cidr", absl::StrCat(kClusterCidrV4, ",", kClusterCidrV6)});
  }
  all.insert(all.end(), flags.begin(), flags.end());
  std::vector<std::string> argv = Argv(all, impl->folder.path() + "/state");
  if (!program.empty()) argv[0] = program;
  absl::StatusOr<std::unique_ptr<ChildProcess>> child =
      ChildProcess::Start({.argv = std::move(argv), .netns = &netns});
  if (!child.ok()) return child.status();
  impl->child = *std::move(child);
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(const NetNs& netns,
                                                    const std::vector<std::string>& flags) {
  absl::StatusOr<std::unique_ptr<Agent>> agent = Launch(netns, flags);
  if (!agent.ok()) return agent;
  if (absl::Status status = (*agent)->WaitUntilItAnswers(); !status.ok()) return status;
  return agent;
}

absl::Status Agent::WaitUntilItAnswers() { return impl_->WithLog(impl_->WaitUntilItAnswers()); }

absl::Status Agent::CleanUp(const NetNs& netns) {
  return RunOk({.argv = Argv({"--cleanup"}, ""), .netns = &netns}).status();
}

absl::StatusOr<v1::Ack> Agent::TryApply(const Objects& objects) {
  v1::ApplyRequest request;
  request.set_protocol_version(2);
  for (const v1::Object& object : objects) *request.add_objects() = object;
  v1::Ack ack;
  absl::Status status = impl_->Call(&v1::Control::Stub::Apply, request, &ack, "Apply");
  if (!status.ok()) return status;
  return ack;
}

absl::StatusOr<v1::Ack> Agent::TryRemove(const std::vector<v1::ObjectRef>& objects) {
  v1::RemoveRequest request;
  request.set_protocol_version(2);
  for (const v1::ObjectRef& ref : objects) *request.add_objects() = ref;
  v1::Ack ack;
  absl::Status status = impl_->Call(&v1::Control::Stub::Remove, request, &ack, "Remove");
  if (!status.ok()) return status;
  return ack;
}

absl::Status Agent::Apply(const Objects& objects) { return AfterRemovals(TryApply(objects)); }

absl::Status Agent::Remove(const std::vector<v1::ObjectRef>& objects) {
  return AfterRemovals(TryRemove(objects));
}

absl::StatusOr<v1::GetStatusResponse> Agent::GetStatus() {
  v1::GetStatusResponse response;
  absl::Status status =
      impl_->Call(&v1::Control::Stub::GetStatus, v1::GetStatusRequest(), &response, "GetStatus");
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::ExplainResponse> Agent::Explain(const v1::ExplainRequest& request) {
  v1::ExplainResponse response;
  absl::Status status = impl_->Call(&v1::Control::Stub::Explain, request, &response, "Explain");
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<std::string> Agent::Dump(v1::DumpRequest::What what) {
  v1::DumpRequest request;
  request.set_what(what);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + OnThisMachine(kStreamTimeout));
  const auto reader = impl_->stub->Dump(&context, request);
  std::string text;
  v1::DumpResponse part;
  while (reader->Read(&part)) text += part.text();
  absl::Status status = impl_->WithLog(FromGrpc(reader->Finish(), "Dump"));
  if (!status.ok()) return status;
  return text;
}

absl::StatusOr<Objects> Agent::List(v1::Kind kind) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + OnThisMachine(kStreamTimeout));
  v1::ListRequest request;
  request.set_kind(kind);
  const auto reader = impl_->stub->List(&context, request);
  Objects objects;
  v1::ListResponse part;
  while (reader->Read(&part)) {
    objects.insert(objects.end(), part.objects().begin(), part.objects().end());
  }
  absl::Status status = impl_->WithLog(FromGrpc(reader->Finish(), "List"));
  if (!status.ok()) return status;
  return objects;
}

absl::Status Agent::AwaitRemovals() {
  absl::StatusOr<v1::GetStatusResponse> status = v1::GetStatusResponse();
  const bool removed = WaitUntil([&] {
    status = GetStatus();
    return !status.ok() || status->leftover_elements() == 0;
  });
  if (removed) return status.status();
  return impl_->WithLog(absl::DeadlineExceededError(
      absl::StrCat(status->leftover_elements(), " elements are not deleted")));
}

absl::Status Agent::AfterRemovals(const absl::StatusOr<v1::Ack>& ack) {
  if (!ack.ok()) return ack.status();
  const absl::Status status = CheckAck(*ack);
  return status.ok() ? AwaitRemovals() : impl_->WithLog(status);
}

absl::Status Agent::CheckServing() {
  const absl::StatusOr<v1::GetStatusResponse> status = GetStatus();
  if (!status.ok()) return status.status();
  if (status->state() != v1::SERVING || !status->last_error().empty() ||
      status->pending_changes() != 0) {
    return impl_->WithLog(absl::InternalError(
        absl::StrCat(v1::State_Name(status->state()), ", ", status->pending_changes(),
                     " changes pending, last error: ", status->last_error())));
  }
  return absl::OkStatus();
}

absl::Status Agent::WaitUntilSaved() {
  absl::StatusOr<v1::GetStatusResponse> status = v1::GetStatusResponse();
  const bool saved = WaitUntil([&] {
    status = GetStatus();
    if (!status.ok()) return true;
    const auto& synced = status->saved_state().synced();
    const auto& commit = status->last_commit().time();
    return status->saved_state().error().empty() && std::pair(synced.seconds(), synced.nanos()) >
                                                        std::pair(commit.seconds(), commit.nanos());
  });
  if (saved) return status.status();
  return impl_->WithLog(
      absl::DeadlineExceededError("the last commit is not on disk: " + status->ShortDebugString()));
}

absl::Status Agent::Stop() {
  // Close the channel first, because an idle channel does not react to the server's shutdown. With
  // an open channel, svcmapd would exit only after its grace period.
  impl_->stub.reset();
  impl_->channel.reset();
  if (absl::Status status = impl_->child->Signal(SIGTERM); !status.ok()) {
    return impl_->WithLog(status);
  }
  const auto exit = impl_->child->Wait(OnThisMachine(kStartTimeout));
  if (!exit) return impl_->WithLog(absl::DeadlineExceededError("SIGTERM did not end svcmapd"));
  if (!exit->ok()) return impl_->WithLog(absl::InternalError(exit->ToString()));
  return absl::OkStatus();
}

absl::Status Agent::Kill() {
  if (absl::Status status = impl_->child->Signal(SIGKILL); !status.ok()) return status;
  if (!impl_->child->Wait(OnThisMachine(kStartTimeout)))
    return absl::DeadlineExceededError("SIGKILL");
  return absl::OkStatus();
}

pid_t Agent::pid() const { return impl_->child->pid(); }
std::string Agent::socket() const { return "unix://" + impl_->path(); }
std::string Agent::log() const { return impl_->child->err(); }

// ---- PushStream ----

struct PushStream::Impl {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream;
  v1::Opened opened;
  uint64_t number = 0;
  absl::Status ended;  // The final status of the stream. gRPC returns it only once.
  bool finished = false;

  ~Impl() {
    context.TryCancel();
    if (stream && !finished) (void)stream->Finish();
  }

  absl::Status Ended() {
    if (finished) return ended;
    finished = true;
    ended = FromGrpc(stream->Finish(), "Push");
    if (ended.ok()) ended = absl::UnavailableError("Push: the agent ended the stream");
    return ended;
  }
  absl::Status Write(const v1::PushRequest& request) {
    return stream->Write(request) ? absl::OkStatus() : Ended();
  }
};

PushStream::PushStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PushStream::~PushStream() = default;

const v1::Opened& PushStream::opened() const { return impl_->opened; }

absl::StatusOr<std::unique_ptr<PushStream>> Agent::Push(const std::string& controller) {
  auto impl = std::make_unique<PushStream::Impl>();
  impl->context.set_deadline(std::chrono::system_clock::now() + OnThisMachine(kStreamTimeout));
  impl->stream = impl_->stub->Push(&impl->context);
  v1::PushRequest request;
  request.mutable_open()->set_name(controller);
  request.mutable_open()->set_protocol_version(2);
  v1::PushResponse response;
  if (!impl->stream->Write(request) || !impl->stream->Read(&response)) {
    return impl_->WithLog(impl->Ended());
  }
  impl->opened = response.opened();
  return std::unique_ptr<PushStream>(new PushStream(std::move(impl)));
}

absl::Status PushStream::Begin() {
  v1::PushRequest request;
  request.mutable_snapshot_begin();
  return impl_->Write(request);
}

absl::StatusOr<uint64_t> PushStream::Send(const std::vector<v1::Change>& changes) {
  v1::PushRequest request;
  request.mutable_batch()->set_number(++impl_->number);
  for (const v1::Change& change : changes) *request.mutable_batch()->add_changes() = change;
  if (absl::Status status = impl_->Write(request); !status.ok()) return status;
  return impl_->number;
}

absl::StatusOr<uint64_t> PushStream::End() {
  v1::PushRequest request;
  request.mutable_snapshot_end()->set_number(++impl_->number);
  request.mutable_snapshot_end()->set_accept_removals(true);
  if (absl::Status status = impl_->Write(request); !status.ok()) return status;
  return impl_->number;
}

absl::StatusOr<v1::Ack> PushStream::ReadAck() {
  v1::PushResponse response;
  if (!impl_->stream->Read(&response)) return impl_->Ended();
  return response.ack();
}

absl::StatusOr<v1::Ack> PushStream::Batch(const std::vector<v1::Change>& changes) {
  const absl::StatusOr<uint64_t> number = Send(changes);
  return number.ok() ? ReadAck() : absl::StatusOr<v1::Ack>(number.status());
}

absl::StatusOr<v1::Ack> PushStream::Snapshot(const Objects& objects) {
  if (absl::Status status = Begin(); !status.ok()) return status;
  google::protobuf::RepeatedPtrField<v1::ObjectResult> results;
  for (size_t at = 0; at < objects.size(); at += kSnapshotBatch) {
    std::vector<v1::Change> changes;
    for (size_t i = at; i < std::min(objects.size(), at + kSnapshotBatch); ++i) {
      changes.push_back(Upsert(objects[i]));
    }
    absl::StatusOr<v1::Ack> ack = Batch(changes);
    if (!ack.ok()) return ack;
    results.MergeFrom(ack->results());
    if (ack->outcome() == v1::FAILED) return ack;
  }
  const absl::StatusOr<uint64_t> end = End();
  if (!end.ok()) return end.status();
  absl::StatusOr<v1::Ack> ack = ReadAck();
  if (ack.ok()) ack->mutable_results()->MergeFrom(results);
  return ack;
}

absl::Status Agent::Replace(const Objects& objects) {
  const absl::StatusOr<std::unique_ptr<PushStream>> stream = Push();
  if (!stream.ok()) return stream.status();
  return AfterRemovals((*stream)->Snapshot(objects));
}

}  // namespace svcmap::testing
