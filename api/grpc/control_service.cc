#include "api/grpc/control_service.h"

#include <algorithm>
#include <future>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/convert/kinds.h"
#include "api/grpc/explain.h"
#include "api/grpc/status.h"
#include "api/log/log_value.h"
#include "nft/text/nft_text.h"
#include "proxy/explain/kernel_check.h"
#include "proxy/reconcile/row_reader.h"

namespace svcmap::api {
namespace {

constexpr size_t kChunkBytes = 256 * 1024;  // Approximate size of a List or Dump message.
// Duration of one portion of a Dump or Explain on the loop's thread, during which changes wait.
constexpr std::chrono::milliseconds kPortion{5};

// An object that List returns, as the Store stores it.
struct Listed {
  template <typename T>
  Listed(proxy::Kind kind, const std::shared_ptr<const T>& object, const std::string& key)
      : kind(kind), key(&key), message(object, &object->message) {}

  proxy::Kind kind;
  const std::string* key;                      // Valid as long as `message`.
  std::shared_ptr<const std::string> message;  // Keeps the object.
};

bool Matches(const v1::ListRequest& request, std::string_view key) {
  const size_t slash = key.find('/');
  const std::string_view name = slash == key.npos ? key : key.substr(slash + 1);
  const std::string_view name_space = slash == key.npos ? "" : key.substr(0, slash);
  return (request.namespace_().empty() || request.namespace_() == name_space) &&
         (request.name().empty() || request.name() == name);
}

// Returns all stored objects of the requested kinds. The loop's thread runs this function between
// two changes, so the function only copies pointers.
std::vector<Listed> Collect(const proxy::Store& store, v1::Kind requested) {
  std::vector<Listed> listed;
  const auto wanted = [&](v1::Kind kind) {
    return requested == v1::KIND_UNSPECIFIED || requested == kind;
  };
  listed.reserve((wanted(v1::KIND_SERVICE) ? store.service_count() : 0) +
                 (wanted(v1::KIND_ENDPOINT_SLICE) ? store.slices().size() : 0));
  if (wanted(v1::KIND_SERVICE)) {
    for (const auto& [key, entry] : store.services()) {
      if (!entry.service) continue;
      listed.emplace_back(proxy::Kind::kService, entry.service, entry.service->key);
    }
  }
  if (wanted(v1::KIND_ENDPOINT_SLICE)) {
    for (const auto& [key, slice] : store.slices()) {
      listed.emplace_back(proxy::Kind::kEndpointSlice, slice, slice->key);
    }
  }
  if (wanted(v1::KIND_NODE)) {
    for (const auto& [key, node] : store.nodes()) {
      listed.emplace_back(proxy::Kind::kNode, node, node->name);
    }
  }
  if (wanted(v1::KIND_SERVICE_CIDR)) {
    for (const auto& [key, cidr] : store.service_cidrs()) {
      listed.emplace_back(proxy::Kind::kServiceCidr, cidr, cidr->name);
    }
  }
  return listed;
}

std::string SortLines(const std::string& text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  sorted.reserve(text.size());
  for (const absl::string_view line : lines) absl::StrAppend(&sorted, line, "\n");
  return sorted;
}

void FillLimits(const PushLimits& push, const proxy::StateLimits& state, v1::Limits& limits) {
  limits.set_max_batch_bytes(push.max_batch_bytes);
  limits.set_max_batches_in_flight(push.max_batches_in_flight);
  limits.set_max_objects(state.objects);
  limits.set_max_endpoints_per_service(state.endpoints_per_service);
  limits.set_max_streams(push.max_streams);
  limits.set_max_bytes_in_flight(push.max_bytes_in_flight);
}

grpc::Status Stopping() { return Error(grpc::UNAVAILABLE, v1::STOPPING, "the agent is stopping"); }

}  // namespace

ControlService::ControlService(proxy::Loop& loop, Intake& intake, WatchHub& hub,
                               const nft::TableSpecs& tables, ControlOptions options)
    : loop_(loop), intake_(intake), hub_(hub), tables_(tables), options_(std::move(options)) {}

grpc::Status ControlService::RejectedByManifests() const {
  if (options_.manifests_path.empty()) return grpc::Status::OK;
  return Error(grpc::FAILED_PRECONDITION, v1::STATE_FROM_MANIFESTS,
               "the state comes from --manifests " + options_.manifests_path +
                   "; controllers and svcmapctl cannot change it",
               {{"path", options_.manifests_path}});
}

grpc::Status ControlService::AdmitStream(const std::string& connection) {
  if (const grpc::Status rejected = RejectedByManifests(); !rejected.ok()) return rejected;
  const uint32_t limit = options_.limits.max_streams;
  if (active_session_.Admit(connection, limit)) return grpc::Status::OK;
  return Error(grpc::RESOURCE_EXHAUSTED, v1::LIMIT_REACHED,
               "no more than --max-streams " + std::to_string(limit) +
                   " push streams on one connection at a time; stream rejected",
               {{"flag", "--max-streams"}, {"limit", std::to_string(limit)}});
}

PushReactor* ControlService::Push(grpc::CallbackServerContext* context, const std::string& client) {
  const std::string connection = context->peer();
  if (const grpc::Status rejected = AdmitStream(connection); !rejected.ok()) {
    return new RejectedCall<PushReactor>(rejected);
  }
  v1::Opened opened;
  opened.set_agent_version(options_.version);
  opened.set_node_name(options_.node_name);
  opened.set_revision(loop_.status().revision);
  FillLimits(options_.limits, loop_.limits(), *opened.mutable_limits());
  SetTimestamp(*opened.mutable_started(), started_);
  return NewPushStream(intake_, active_session_, options_.limits, connection, client,
                       std::move(opened));
}

template <typename Request>
grpc::Status ControlService::SubmitAndWait(
    const Request& request, const std::string& client,
    const std::function<absl::StatusOr<ConvertedChange>(int)>& convert, v1::Ack& ack) {
  if (grpc::Status unsupported = CheckVersion("protocol_version", request.protocol_version());
      !unsupported.ok()) {
    return unsupported;
  }
  if (const grpc::Status rejected = RejectedByManifests(); !rejected.ok()) return rejected;
  const int size = request.objects_size();
  if (const grpc::Status too_many = CheckBatchSize(size); !too_many.ok()) return too_many;
  if (request.validate_only()) {
    const absl::StatusOr<proxy::DryRun> tried = intake_.Try(size, convert);
    if (!tried.ok()) return NotTaken(tried.status());
    ack = ToAck(tables_, *tried);
    return grpc::Status::OK;
  }
  return SubmitBatch(proxy::Batch::Mark::kNone, size, convert, client, ack);
}

grpc::Status ControlService::SubmitBatch(
    proxy::Batch::Mark mark, int size,
    const std::function<absl::StatusOr<ConvertedChange>(int)>& convert, const std::string& client,
    v1::Ack& ack) {
  auto answer = std::make_shared<std::promise<proxy::BatchResult>>();
  std::future<proxy::BatchResult> result = answer->get_future();
  const absl::Status submitted =
      intake_.Submit({mark}, size, convert,
                     [answer](proxy::BatchResult result) { answer->set_value(std::move(result)); },
                     {client, "client=" + LogValue(client)});
  if (!submitted.ok()) return NotTaken(submitted);
  ack = ToAck(0, result.get());
  return grpc::Status::OK;
}

grpc::Status ControlService::AcceptSnapshot(const Caller& caller,
                                            const v1::AcceptSnapshotRequest& request,
                                            v1::Ack& ack) {
  if (grpc::Status unsupported = CheckVersion("protocol_version", request.protocol_version());
      !unsupported.ok()) {
    return unsupported;
  }
  if (!loop_.status().held_snapshot) {
    return Error(grpc::FAILED_PRECONDITION, v1::NO_HELD_SNAPSHOT, "the agent holds no snapshot");
  }
  return SubmitBatch(proxy::Batch::Mark::kAcceptSnapshot, 0, nullptr, caller.client, ack);
}

grpc::Status ControlService::Apply(const Caller& caller, const envelope::v1::ApplyRequest& request,
                                   v1::Ack& ack) {
  return SubmitAndWait(
      request, caller.client,
      [&](int i) { return ConvertObject(request.objects(i), intake_.context()); }, ack);
}

grpc::Status ControlService::Remove(const Caller& caller, const v1::RemoveRequest& request,
                                    v1::Ack& ack) {
  return SubmitAndWait(
      request, caller.client, [&](int i) { return ConvertRemoval(request.objects(i)); }, ack);
}

grpc::Status ControlService::List(const Caller&, const v1::ListRequest& request,
                                  NextMessage<v1::ListResponse>& next) {
  if (request.kind() != v1::KIND_UNSPECIFIED && FindKind(request.kind()) == nullptr) {
    return InvalidField("kind", "Unsupported value: " + std::to_string(request.kind()));
  }
  std::vector<Listed> listed;
  const auto collect = [&](proxy::Reconciler& r) { listed = Collect(r.store(), request.kind()); };
  if (!loop_.Call(collect)) return Stopping();
  std::erase_if(listed, [&](const Listed& object) { return !Matches(request, *object.key); });
  std::sort(listed.begin(), listed.end(), [](const Listed& a, const Listed& b) {
    return std::tie(a.kind, *a.key) < std::tie(b.kind, *b.key);
  });
  next = [listed = std::move(listed), at = size_t{0}](v1::ListResponse& response) mutable {
    for (size_t bytes = 0; at < listed.size() && bytes < kChunkBytes; ++at) {
      *response.add_objects() = ToObject(listed[at].kind, *listed[at].message);
      listed[at].message.reset();
      bytes += response.objects(response.objects_size() - 1).ByteSizeLong();
    }
    return response.objects_size() > 0;
  };
  return grpc::Status::OK;
}

grpc::Status ControlService::GetStatus(const Caller&, const v1::GetStatusRequest&,
                                       v1::GetStatusResponse& response) {
  FillStatus(response);
  return grpc::Status::OK;
}

void ControlService::FillStatus(v1::GetStatusResponse& response) {
  response.set_version(options_.version);
  response.set_node_name(options_.node_name);
  response.set_manifests_path(options_.manifests_path);
  SetTimestamp(*response.mutable_started(), started_);
  if (options_.kernel_generation) {
    const absl::StatusOr<uint32_t> generation = options_.kernel_generation();
    if (generation.ok()) response.set_kernel_generation(*generation);
  }
  const proxy::LoopStatus status = loop_.status();
  FillLoopStatus(status, tables_, response);
  if (options_.watching) response.set_watching(options_.watching());
  if (options_.disk != nullptr) {
    FillSavedState(options_.state_dir, options_.disk->status(), *response.mutable_saved_state());
  }
  response.set_refused_calls(rejected_calls_.count());
  response.set_failed_handshakes(rejections_.count(Rejection::kHandshakeFailed));
  FillController(active_session_.current(), response);
  FillFindings(intake_, status, response);
}

grpc::Status ControlService::Dump(const Caller& caller, const v1::DumpRequest& request,
                                  NextMessage<v1::DumpResponse>& next) {
  using Rows = proxy::RowReader::Rows;
  std::optional<Rows> requested;
  if (request.what() == v1::DumpRequest::DESIRED) requested = Rows::kDesired;
  if (request.what() == v1::DumpRequest::APPLIED) requested = Rows::kApplied;
  if (request.what() == v1::DumpRequest::PLAN) requested = Rows::kPending;
  if (!requested) {
    return InvalidField("what", "Unsupported value: " + std::to_string(request.what()));
  }
  proxy::RowReader reader(*requested);
  for (bool done = false; !done;) {
    if (caller.context.IsCancelled()) return grpc::Status::CANCELLED;
    const auto read = [&](proxy::Reconciler& r) { done = reader.Read(r, kPortion); };
    if (!loop_.Call(read)) return Stopping();
    reader.Merge();
  }
  std::string text = nft::TransactionText(tables_, reader.Take());
  // Sorted lines allow a comparison of two dumps. The order of a plan is significant.
  if (request.what() != v1::DumpRequest::PLAN) text = SortLines(text);
  next = [text = std::move(text), offset = size_t{0}](v1::DumpResponse& response) mutable {
    if (offset >= text.size()) return false;
    response.set_text(text.substr(offset, kChunkBytes));
    offset += kChunkBytes;
    return true;
  };
  return grpc::Status::OK;
}

grpc::Status ControlService::Explain(const Caller& caller, const v1::ExplainRequest& request,
                                     v1::ExplainResponse& response) {
  const absl::StatusOr<proxy::Question> question = ToQuestion(request);
  if (!question.ok()) {
    return Error(grpc::INVALID_ARGUMENT, v1::INVALID_FIELD,
                 std::string(question.status().message()));
  }
  proxy::Explained explained;
  std::unique_ptr<proxy::KernelCheck> check;
  uint64_t revision = 0;
  const std::vector<proxy::Finding> received = intake_.ReceivedFindings();
  std::vector<std::string> findings;
  const auto explain = [&](proxy::Reconciler& reconciler) {
    explained = proxy::Explain(reconciler.ContextForExplain(), *question);
    findings = FindingsAbout(explained.service_key, received, reconciler.store());
    check = reconciler.MakeCheck(*question, explained, tables_);
    revision = reconciler.revision();
    response.mutable_kernel()->set_pending(reconciler.Pending());
  };
  bool done = false;
  bool changed = false;
  const auto first = [&](proxy::Reconciler& reconciler) {
    explain(reconciler);
    done = check->Read(kPortion);
  };
  const auto next = [&](proxy::Reconciler& reconciler) {
    done = check->Read(kPortion);
    changed = reconciler.revision() != revision;
  };
  if (!loop_.Call(first)) return Stopping();
  while (!done) {
    if (caller.context.IsCancelled()) return grpc::Status::CANCELLED;
    if (!loop_.Call(next)) return Stopping();
  }
  absl::StatusOr<std::vector<std::string>> differences = check->differences();
  // A commit between two portions may be the reason for the differences.
  if (changed && differences.ok() && !differences->empty()) {
    const auto confirm = [&](proxy::Reconciler& reconciler) {
      const std::unique_ptr<proxy::KernelCheck> earlier = std::move(check);
      explain(reconciler);
      check->Confirm(*earlier);
      check->Read(proxy::RowReader::kNoLimit);
    };
    if (!loop_.Call(confirm)) return Stopping();
    differences = check->differences();
  }
  FillExplained(*question, explained, response);
  AddFindings(findings, response);
  FillKernelCheck(differences, response.kernel().pending(), *response.mutable_kernel());
  response.set_revision(revision);
  return grpc::Status::OK;
}

grpc::ServerWriteReactor<v1::WatchEvent>* ControlService::Watch(const std::string& peer) {
  return NewWatchStream(hub_, peer, options_.limits.max_watchers,
                        [this](v1::GetStatusResponse& status) { FillStatus(status); });
}

}  // namespace svcmap::api
