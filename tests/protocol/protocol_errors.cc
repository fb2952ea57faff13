// Checks with controllers that violate the protocol.
#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

constexpr int kUnknownField = 12345;

v1::PushRequest BatchWith(const v1::Change& change) {
  v1::PushRequest request;
  request.mutable_batch()->set_number(1);
  *request.mutable_batch()->add_changes() = change;
  return request;
}

// Returns a message with a field of a newer protocol version.
template <typename Message>
Message WithUnknownField() {
  Message message;
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(kUnknownField, 1);
  return message;
}

struct ErrorCase {
  const char* name;
  std::vector<v1::PushRequest> messages;
  grpc::StatusCode code;
  std::string part;  // Expected substring of the error message.
};

std::vector<ErrorCase> ErrorCases(const Target& target) {
  const v1::PushRequest open = Session::OpenRequest(target);
  const v1::PushRequest batch = BatchWith(Put(Service("refused", 9)));
  v1::PushRequest begin, end;
  begin.mutable_snapshot_begin();
  end.mutable_snapshot_end()->set_number(1);
  const auto open_with = [&](const auto& change) {
    v1::PushRequest changed = open;
    change(*changed.mutable_open());
    return changed;
  };
  const auto remove = [](v1::Kind kind, const std::string& name) {
    v1::Change change = RemoveService(name);
    change.mutable_remove()->set_kind(kind);
    return BatchWith(change);
  };
  return {
      {"Batch before Open", {batch}, grpc::INVALID_ARGUMENT, "must be open"},
      {"SnapshotBegin before Open", {begin}, grpc::INVALID_ARGUMENT, "must be open"},
      {"Open twice", {open, open}, grpc::INVALID_ARGUMENT, "open sent twice"},
      {"Open without name",
       {open_with([](v1::Open& o) { o.clear_name(); })},
       grpc::INVALID_ARGUMENT,
       "open.name: Required value"},
      {"name of 254 bytes",
       {open_with([](v1::Open& o) { o.set_name(std::string(254, 'a')); })},
       grpc::INVALID_ARGUMENT,
       "must have at most 253 bytes"},
      {"protocol_version 2",
       {open_with([](v1::Open& o) { o.set_protocol_version(2); })},
       grpc::FAILED_PRECONDITION,
       "open.protocol_version 2 is not supported; supported versions: 1"},
      {"protocol_version 0",
       {open_with([](v1::Open& o) { o.clear_protocol_version(); })},
       grpc::FAILED_PRECONDITION,
       "open.protocol_version 0"},
      {"SnapshotEnd outside a snapshot",
       {open, end},
       grpc::INVALID_ARGUMENT,
       "snapshot_end outside a snapshot"},
      {"SnapshotBegin inside a snapshot",
       {open, begin, begin},
       grpc::INVALID_ARGUMENT,
       "snapshot_begin inside a snapshot"},
      {"empty message", {open, v1::PushRequest()}, grpc::INVALID_ARGUMENT, "message has no field"},
      {"message of an unknown kind",
       {open, WithUnknownField<v1::PushRequest>()},
       grpc::INVALID_ARGUMENT,
       "message has no field"},
      {"empty change", {open, BatchWith({})}, grpc::INVALID_ARGUMENT, ""},
      {"change of an unknown kind",
       {open, BatchWith(WithUnknownField<v1::Change>())},
       grpc::INVALID_ARGUMENT,
       ""},
      {"removal without kind",
       {open, remove(v1::KIND_UNSPECIFIED, "old")},
       grpc::INVALID_ARGUMENT,
       ""},
      {"removal of an unknown kind",
       {open, remove(static_cast<v1::Kind>(99), "old")},
       grpc::INVALID_ARGUMENT,
       ""},
  };
}

}  // namespace

void CheckProtocolErrors(const Target& target, Verdict& verdict) {
  const Changes base = {Put(Service("old", 1))};
  Replace(target, base, verdict);
  for (const ErrorCase& c : ErrorCases(target)) {
    Session session(target);
    for (const v1::PushRequest& message : c.messages) session.Write(message);
    const grpc::Status status = session.HalfClose();
    verdict.Equal(std::string(c.name) + ": end of the stream:", CodeName(c.code),
                  CodeName(status.error_code()));
    verdict.Contains(std::string(c.name) + ": the message", c.part, status.error_message());
    verdict.That(!status.error_message().empty(), std::string(c.name) + ": a reason", "");
    ExpectStored(target, StateOf(base), "after " + std::string(c.name), verdict);
  }
}

}  // namespace svcmap::protocol
