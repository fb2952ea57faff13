// Checks with controllers that violate the protocol.
#include "svcmap/rpc/v1/rpc.pb.h"
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

// Returns the reason in the details of `status`.
std::string ReasonOf(const grpc::Status& status) {
  rpc::v1::Status details;
  rpc::v1::ErrorInfo info;
  const bool read = details.ParseFromString(status.error_details()) &&
                    details.details_size() == 1 &&
                    details.details(0).type_url() == "type.googleapis.com/google.rpc.ErrorInfo" &&
                    info.ParseFromString(details.details(0).value());
  return read && info.domain() == "svcmap.v1" ? info.reason() : "none";
}

struct ErrorCase {
  const char* name;
  std::vector<v1::PushRequest> messages;
  grpc::StatusCode code;
  v1::ErrorReason reason;
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
      {"Batch before Open", {batch}, grpc::INVALID_ARGUMENT, v1::OUT_OF_ORDER},
      {"SnapshotBegin before Open", {begin}, grpc::INVALID_ARGUMENT, v1::OUT_OF_ORDER},
      {"Open twice", {open, open}, grpc::INVALID_ARGUMENT, v1::OUT_OF_ORDER},
      {"Open without name",
       {open_with([](v1::Open& o) { o.clear_name(); })},
       grpc::INVALID_ARGUMENT,
       v1::INVALID_FIELD},
      {"name of 254 bytes",
       {open_with([](v1::Open& o) { o.set_name(std::string(254, 'a')); })},
       grpc::INVALID_ARGUMENT,
       v1::INVALID_FIELD},
      {"protocol_version 1",
       {open_with([](v1::Open& o) { o.set_protocol_version(1); })},
       grpc::FAILED_PRECONDITION,
       v1::UNSUPPORTED_PROTOCOL_VERSION},
      {"protocol_version 0",
       {open_with([](v1::Open& o) { o.clear_protocol_version(); })},
       grpc::FAILED_PRECONDITION,
       v1::UNSUPPORTED_PROTOCOL_VERSION},
      {"SnapshotEnd outside a snapshot", {open, end}, grpc::INVALID_ARGUMENT, v1::OUT_OF_ORDER},
      {"SnapshotBegin inside a snapshot",
       {open, begin, begin},
       grpc::INVALID_ARGUMENT,
       v1::OUT_OF_ORDER},
      {"empty message", {open, v1::PushRequest()}, grpc::INVALID_ARGUMENT, v1::UNKNOWN_MESSAGE},
      {"message of an unknown kind",
       {open, WithUnknownField<v1::PushRequest>()},
       grpc::INVALID_ARGUMENT,
       v1::UNKNOWN_MESSAGE},
      {"empty change", {open, BatchWith({})}, grpc::INVALID_ARGUMENT, v1::UNKNOWN_MESSAGE},
      {"change of an unknown kind",
       {open, BatchWith(WithUnknownField<v1::Change>())},
       grpc::INVALID_ARGUMENT,
       v1::UNKNOWN_MESSAGE},
      {"removal without kind",
       {open, remove(v1::KIND_UNSPECIFIED, "old")},
       grpc::INVALID_ARGUMENT,
       v1::UNKNOWN_MESSAGE},
      {"removal of an unknown kind",
       {open, remove(static_cast<v1::Kind>(99), "old")},
       grpc::INVALID_ARGUMENT,
       v1::UNKNOWN_MESSAGE},
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
    verdict.Equal(std::string(c.name) + ": reason:", v1::ErrorReason_Name(c.reason),
                  ReasonOf(status));
    verdict.That(!status.error_message().empty(), std::string(c.name) + ": a reason", "");
    ExpectStored(target, StateOf(base), "after " + std::string(c.name), verdict);
  }
}

}  // namespace svcmap::protocol
