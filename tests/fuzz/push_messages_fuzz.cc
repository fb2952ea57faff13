// Fuzzes the processing of messages from controllers and svcmapctl, up to the kernel's elements,
// without gRPC. An input contains messages in protobuf text format, because most mutations of this
// format can still be parsed. Each message is preceded by a line "--- KIND". Alternatively, an
// input contains the PushRequests of a stream, each preceded by its length.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/convert/convert.h"
#include "api/convert/quote.h"
#include "api/grpc/explain.h"
#include "api/intake/deferred_slices.h"
#include "api/log/printable.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "proxy/reconcile/reconciler.h"
#include "tests/support/encoded.h"
#include "tests/support/fake_kernel.h"
#include "tests/unit/proxy/all_rows.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxMessages = 50;
constexpr int kMaxSyncs = 10;  // Maximum number of syncs until the kernel contains all changes.
constexpr size_t kMaxResultBytes = 2000;

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

proxy::ReconcilerOptions Options() {
  proxy::ReconcilerOptions options{.node_name = "n1"};
  options.ruleset.cluster_cidr[Index(Family::kIpv4)] = IpPrefix::Parse("10.244.0.0/16");
  return options;
}

// An agent without threads and sockets.
class Agent {
 public:
  Agent() {
    reconciler_.node().SetInterfaceAddresses(
        std::vector<IpAddress>{*IpAddress::Parse("192.168.0.1")});
  }

  void Take(const v1::PushRequest& request) {
    switch (request.message_case()) {
      case v1::PushRequest::kSnapshotBegin:
        store().BeginSnapshot();
        return;
      case v1::PushRequest::kBatch:
        return Apply(request.batch().changes(), [this](const v1::Change& change) {
          return ConvertChange(testing::Encoded(change), context_);
        });
      case v1::PushRequest::kSnapshotEnd:
        store().EndSnapshot(++sequence_);
        return Settle();
      default:
        return;
    }
  }
  void Take(const v1::ApplyRequest& request) {
    Apply(request.objects(),
          [this](const v1::Object& object) { return ConvertObject(object, context_); });
  }
  void Take(const v1::RemoveRequest& request) { Apply(request.objects(), ConvertRemoval); }
  void Take(const v1::ExplainRequest& request) {
    const absl::StatusOr<proxy::Question> question = ToQuestion(request);
    if (!question.ok()) return Say(std::string(question.status().message()));
    const proxy::Explained explained = proxy::Explain(reconciler_.ContextForExplain(), *question);
    v1::ExplainResponse response;
    FillExplained(*question, explained, response);
    reported_ += response.SerializeAsString();
    if (reconciler_.revision() == 0) return;  // The tables do not exist yet.
    const nft::TableSpecs tables = proxy::test::Tables();
    const auto check = reconciler_.MakeCheck(*question, explained, tables);
    Require(check->Read(proxy::RowReader::kNoLimit));
    const auto differences = check->differences();
    Require(differences.ok() && differences->empty());
  }

  // Sends all stored objects again, which must not cause any change.
  void TakeAgain() {
    Settle();
    v1::ApplyRequest request;
    request.set_protocol_version(2);
    for (const auto& [key, entry] : store().services()) {
      if (entry.service)
        *request.add_objects() = ToObject(proxy::Kind::kService, entry.service->message);
    }
    for (const auto& [key, slice] : store().slices()) {
      *request.add_objects() = ToObject(proxy::Kind::kEndpointSlice, slice->message);
    }
    for (const auto& [name, node] : store().nodes()) {
      *request.add_objects() = ToObject(proxy::Kind::kNode, node->message);
    }
    for (const auto& [name, cidr] : store().service_cidrs()) {
      *request.add_objects() = ToObject(proxy::Kind::kServiceCidr, cidr->message);
    }
    for (const v1::Object& object : request.objects()) {
      const absl::StatusOr<ConvertedChange> change = ConvertObject(object, context_);
      Require(change.ok() && change->change.has_value());
      store().Apply(*change->change, ++sequence_);
    }
    Require(!reconciler_.Pending());
  }

  const std::string& reported() const { return reported_; }  // Returns all responses of the agent.
  proxy::test::Lines elements() { return proxy::test::Contents(kernel_); }

 private:
  // As in the intake, an empty change causes the rejection of the complete message.
  template <typename Messages, typename Convert>
  void Apply(const Messages& messages, Convert&& convert) {
    std::vector<ConvertedChange> changes;
    for (const auto& message : messages) {
      absl::StatusOr<ConvertedChange> change = convert(message);
      if (!change.ok()) return Say(std::string(change.status().message()));
      changes.push_back(*std::move(change));
    }
    ++sequence_;
    DeferredSlices late;
    for (const ConvertedChange& change : changes) {
      Require(change.change.has_value() || change.delta || change.findings.size() == 1);
      Require(change.findings.size() <= kMaxWarnings + 1);
      for (const proxy::Finding& finding : change.findings) Notify(finding);
      if (change.change) {
        late.Forget(*change.change);
        store().Apply(*change.change, sequence_);
      } else if (change.delta) {
        late.Add(change.key, change.delta);
      } else {
        store().AddToSnapshot(change.kind, change.key);
      }
    }
    for (const proxy::DeferredChange& change : late.Take(context_)) {
      store().AddToSnapshot(change.kind, change.key);
      const proxy::DeferredChange::Result made = change.make(store());
      Require(made.change.has_value() || !made.findings.empty());
      for (const proxy::Finding& finding : made.findings) Notify(finding);
      if (made.change) store().Apply(*made.change, sequence_);
    }
    Settle();
  }

  void Settle() {
    for (int i = 0; reconciler_.Pending(); ++i) {
      Require(i < kMaxSyncs);
      const proxy::SyncResult result = reconciler_.Sync(SIZE_MAX);
      Require(result.outcome != proxy::SyncResult::Outcome::kFailed);
      for (const auto& found : result.findings) Notify(found.finding);
    }
    while (!reconciler_.leftovers().empty()) Require(reconciler_.RemoveLeftovers().error.ok());
    Require(proxy::test::StatusOf(reconciler_).rejected_services == 0);
    const proxy::test::Lines wanted = proxy::test::Additions(proxy::test::DesiredRows(reconciler_));
    Require(wanted == proxy::test::Additions(proxy::test::AppliedRows(reconciler_)));
    Require(wanted == elements());
  }

  void Notify(const proxy::Finding& finding) {
    const v1::ObjectResult result = ToProto(finding);
    Require(!result.reason().empty() && result.value().size() <= kMaxQuotedBytes + 5);
    for (const std::string* text : {&result.namespace_(), &result.name(), &result.field(),
                                    &result.value(), &result.reason()}) {
      Require(IsUtf8(*text));
    }
    Say(result.message());
  }

  void Say(const std::string& text) {
    Require(!text.empty() && text.size() <= kMaxResultBytes && IsUtf8(text));
    reported_ += text + "\n";
  }

  proxy::Store& store() { return reconciler_.store(); }

  nft::FakeKernel kernel_{proxy::test::Tables()};
  proxy::Reconciler reconciler_{kernel_, Options()};
  const ConvertContext context_{.node_name = "n1"};
  uint64_t sequence_ = 0;
  std::string reported_;
};

using Message =
    std::variant<v1::PushRequest, v1::ApplyRequest, v1::RemoveRequest, v1::ExplainRequest>;

class NoErrors : public google::protobuf::io::ErrorCollector {
  void AddError(int, int, const std::string&) override {}
};

// Skip messages that gRPC could not transmit, because text format accepts strings that are not
// valid UTF-8.
template <typename Request>
void AddText(const std::string& text, std::vector<Message>& messages) {
  NoErrors errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  Request typed, sent;
  if (parser.ParseFromString(text, &typed) && sent.ParseFromString(typed.SerializeAsString())) {
    messages.emplace_back(std::move(sent));
  }
}

constexpr std::string_view kTextBegin = "--- ";

std::vector<Message> ReadTexts(std::string_view input) {
  std::vector<Message> messages;
  while (input.starts_with(kTextBegin) && messages.size() < kMaxMessages) {
    input.remove_prefix(kTextBegin.size());
    const std::string_view message = input.substr(0, input.find(kTextBegin));
    input.remove_prefix(message.size());
    const std::string_view kind = message.substr(0, message.find('\n'));
    const std::string text(message.substr(kind.size()));
    if (kind == "push") AddText<v1::PushRequest>(text, messages);
    if (kind == "apply") AddText<v1::ApplyRequest>(text, messages);
    if (kind == "remove") AddText<v1::RemoveRequest>(text, messages);
    if (kind == "explain") AddText<v1::ExplainRequest>(text, messages);
  }
  return messages;
}

std::vector<Message> ReadStream(std::string_view input) {
  std::vector<Message> messages;
  google::protobuf::io::ArrayInputStream stream(input.data(), static_cast<int>(input.size()));
  v1::PushRequest request;
  bool ended = false;
  while (messages.size() < kMaxMessages &&
         google::protobuf::util::ParseDelimitedFromZeroCopyStream(&request, &stream, &ended)) {
    messages.emplace_back(request);
    request.Clear();
  }
  return messages;
}

// Sends the messages to two agents. Equal messages must result in equal responses and equal
// elements.
void TakeTwice(const std::vector<Message>& messages) {
  Agent agent, another;
  for (const Message& message : messages) {
    std::visit([&agent](const auto& request) { agent.Take(request); }, message);
    std::visit([&another](const auto& request) { another.Take(request); }, message);
  }
  Require(agent.reported() == another.reported() && agent.elements() == another.elements());
  agent.TakeAgain();
}

}  // namespace
}  // namespace svcmap::api

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 16) return 0;
  google::protobuf::SetLogHandler(nullptr);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto messages = input.starts_with(svcmap::api::kTextBegin) ? svcmap::api::ReadTexts(input)
                                                                   : svcmap::api::ReadStream(input);
  if (!messages.empty()) svcmap::api::TakeTwice(messages);
  return 0;
}
