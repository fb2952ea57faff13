// Checks with messages that the agent must reject.
#include <grpcpp/generic/generic_stub.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

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

// Checks with repeated batch numbers and repeated objects.

void CheckReplays(const Target& target, Verdict& verdict) {
  const Changes base = {Put(Service("web", 1))};
  Replace(target, base, verdict);
  const struct {
    uint64_t number;
    bool end_of_snapshot;
  } cases[] = {{4, false}, {3, false}, {0, false}, {4, true}, {2, true}};
  for (const auto& c : cases) {
    Session session(target);
    session.Open(target);
    session.Begin();
    session.Batch(4, base);
    session.Ack();
    if (c.end_of_snapshot) {
      session.End(c.number);
    } else {
      session.Batch(c.number, {Put(Service("replayed", 2))});
    }
    verdict.Equal(
        "number " + std::to_string(c.number) + " after 4:",
        "INVALID_ARGUMENT: batch number " + std::to_string(c.number) + " does not follow 4",
        Text(session.HalfClose()));
    ExpectStored(target, StateOf(base), "after a replay", verdict);
  }
  Session zero(target);
  zero.Open(target);
  zero.Batch(0, {});
  verdict.Equal("number 0:", "INVALID_ARGUMENT: batch number 0 does not follow 0",
                Text(zero.HalfClose()));
}

void CheckDuplicates(const Target& target, Verdict& verdict) {
  const std::string token = Replace(target, {}, verdict);
  Session session(target);
  session.Open(target, token);
  session.Batch(1, {Put(Service("web", 1)), RemoveService("web"), Put(Service("web", 2)),
                    Put(Service("gone", 3)), RemoveService("gone")});
  const v1::Ack first = session.Ack();
  ExpectAck(first, 1, v1::COMMITTED, verdict);
  const State held = StateOf({Put(Service("web", 2))});
  ExpectStored(target, held, "after a batch with repeated objects", verdict);
  // If the same objects arrive with a different batch number, the agent writes nothing.
  v1::GetStatusResponse before, after;
  target.GetStatus(&before);
  session.Batch(2, {Put(Service("web", 1)), Put(Service("web", 2))});
  const v1::Ack again = session.Ack();
  ExpectAck(again, 2, v1::UNCHANGED, verdict);
  verdict.Equal("an unchanged revision", first.revision(), again.revision());
  verdict.That(!first.state_token().empty() && first.state_token() == again.state_token(),
               "an unchanged state_token", "a different token, or none");
  target.GetStatus(&after);
  verdict.Equal("unchanged elements_written", before.elements_written(), after.elements_written());
  ExpectStored(target, held, "after a repeated batch", verdict);
}

// Invalid objects are reported in the Ack and do not affect other objects.

namespace {

v1::Service WithPort(v1::Service service, uint32_t port) {
  service.mutable_spec()->mutable_ports(0)->set_port(port);
  return service;
}

v1::Service WithClusterIp(v1::Service service, const std::string& ip) {
  service.mutable_spec()->set_cluster_ip(ip);
  return service;
}

// Endpoints that are missing from a rejected version are removed, so the slice keeps its endpoints.
v1::EndpointSlice WithAnotherAddress(v1::EndpointSlice slice, const std::string& ip) {
  v1::Endpoint another = slice.endpoints(0);
  another.set_addresses(0, ip);
  *slice.add_endpoints() = std::move(another);
  return slice;
}

}  // namespace

void CheckBadObjects(const Target& target, Verdict& verdict) {
  const Changes base = {Put(Service("web", 1)), Put(Slice("web-1", "web", 1)),
                        Put(Service("kept", 2))};
  Replace(target, base, verdict);
  const Changes mistakes = {Put(WithPort(Service("web", 1), 70000)),
                            Put(WithAnotherAddress(Slice("web-1", "web", 1), "no address")),
                            Put(WithClusterIp(Service("new", 3), "10.96.0.999")),
                            Put(Service("name with blanks", 4))};
  const std::set<std::string> names = {"web", "web-1", "new", "name with blanks"};
  Session session(target);
  session.Open(target);
  Changes batch = mistakes;
  batch.push_back(Put(Service("fine", 5)));
  session.Batch(1, batch);
  const v1::Ack ack = session.Ack();
  ExpectAck(ack, 1, v1::COMMITTED, verdict);
  std::set<std::string> rejected;
  for (const v1::ObjectResult& result : ack.results()) {
    if (result.severity() != v1::REFUSED) continue;
    rejected.insert(result.name());
    verdict.That(!result.field().empty() && !result.reason().empty() && !result.message().empty(),
                 "field, reason and message of each rejection", result.ShortDebugString());
  }
  verdict.That(rejected == names, "4 rejected objects", ack.ShortDebugString());
  verdict.Contains(
      "the rejection of web",
      "Service svcmap-check/web rejected: spec.ports[0].port: Invalid value: 70000: must "
      "be between 1 and 65535, inclusive; the previously accepted version, if any, "
      "stays in effect",
      ack.ShortDebugString());
  const State held = After(StateOf(base), {Put(Service("fine", 5))});
  ExpectStored(target, held, "after a batch with invalid objects", verdict);

  // A rejected object counts as part of the snapshot, so the agent does not remove the stored
  // version.
  session.Begin();
  session.Batch(2, mistakes);
  ExpectAck(session.Ack(), 2, v1::UNCHANGED, verdict);
  session.End(3);
  ExpectAck(session.Ack(), 3, v1::COMMITTED, verdict);
  ExpectStored(target, StateOf({base[0], base[1]}), "after a snapshot with invalid objects",
               verdict);
}

// Checks that send invalid bytes in a call or instead of HTTP/2.

namespace {

// Calls /svcmap.v1.Control/`method` with the given bytes as the request. Returns the status and the
// number of responses.
grpc::Status CallWith(const Target& target, const std::string& method, const std::string& bytes,
                      int& answers) {
  grpc::GenericStub stub(target.Connect());
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::CompletionQueue queue;
  const auto done = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, "/svcmap.v1.Control/" + method, &queue);
  call->StartCall(nullptr);
  answers = 0;
  if (done()) {
    const grpc::Slice slice(bytes);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    done();
    for (;; ++answers) {
      grpc::ByteBuffer answer;
      call->Read(&answer, nullptr);
      if (!done()) break;
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  return status;
}

// Returns an ApplyRequest with a name that is not valid UTF-8.
std::string NotUtf8() {
  v1::ApplyRequest request;
  request.set_protocol_version(2);
  *request.add_objects()->mutable_service() = Service("XX", 9);
  std::string bytes = request.SerializeAsString();
  bytes.replace(bytes.find("XX"), 2, "\xff\xfe");
  return bytes;
}

// Returns true if the peer closes `fd`. The peer may send data before it closes the connection.
bool IsClosed(int fd) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  char bytes[4096];
  while (std::chrono::steady_clock::now() < deadline) {
    pollfd waiting = {.fd = fd, .events = POLLIN};
    if (poll(&waiting, 1, 100) <= 0) continue;
    if (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0) return true;
  }
  return false;
}

}  // namespace

void CheckNotMessages(const Target& target, Verdict& verdict) {
  const Changes base = {Put(Service("web", 1))};
  Replace(target, base, verdict);
  const std::string garbage(1000, '\xff');
  int answers = 0;
  for (const std::string method : {"Apply", "Remove", "GetStatus"}) {
    verdict.Equal(method + " with an invalid message:", "INTERNAL",
                  CodeName(CallWith(target, method, garbage, answers).error_code()));
  }
  verdict.Equal("Push with an invalid message:", "INVALID_ARGUMENT",
                CodeName(CallWith(target, "Push", garbage, answers).error_code()));
  verdict.Equal("number of responses:", 0, answers);
  // Only the object is invalid, so the agent rejects it and answers.
  verdict.Equal("Apply with an object that is not UTF-8:", "OK",
                CodeName(CallWith(target, "Apply", NotUtf8(), answers).error_code()));
  verdict.Equal("number of responses:", 1, answers);
  ExpectStored(target, StateOf(base), "after invalid messages", verdict);
}

void CheckNotHttp2(const Target& target, Verdict& verdict) {
  const std::string texts[] = {"GET / HTTP/1.1\r\nHost: agent\r\n\r\n", std::string(1000, '\xff'),
                               "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(1000, '\xff')};
  for (const std::string& text : texts) {
    const int fd = target.ConnectSocket();
    verdict.That(fd >= 0, "a connection", "none");
    if (fd < 0) return;
    (void)!send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    verdict.That(IsClosed(fd), "a connection without HTTP/2 to be closed", "an open connection");
    close(fd);
    ExpectAlive(target, "after the test", verdict);
  }
}

// Checks with messages above the size limit.

void CheckLargeMessage(const Target& target, Verdict& verdict) {
  constexpr uint64_t kLarge = 64ull << 20;
  const Changes base = {Put(Service("web", 1))};
  Replace(target, base, verdict);
  Session session(v1::Control::NewStub(target.Connect()));
  const uint64_t limit = session.Open(target).limits().max_batch_bytes();
  const v1::Service large = Service("large", 2, std::string(std::max(kLarge, limit + 1), '.'));
  session.Batch(1, {Put(large)});
  verdict.Equal("a stream with a message of 64 MB to end with", "RESOURCE_EXHAUSTED",
                CodeName(session.Finish().error_code()));
  v1::Ack ack;
  verdict.Equal("Apply of 64 MB:", "RESOURCE_EXHAUSTED",
                CodeName(target.Apply(large, &ack).error_code()));
  ExpectStored(target, StateOf(base), "after a message of 64 MB", verdict);
  verdict.Equal("Apply of another object:", "OK", Text(target.Apply(Service("small", 3), &ack)));

  // The agent accepts a message with half the maximum size, or with the maximum number of changes.
  constexpr uint64_t kMaxChanges = 65536;
  Session fits(target);
  fits.Open(target);
  const uint64_t changes = limit / 2 / Put(Service("web", 1)).ByteSizeLong();
  fits.Batch(1, std::vector<v1::Change>(std::min(changes, kMaxChanges), Put(Service("web", 1))));
  ExpectAck(fits.Ack(), 1, v1::UNCHANGED, verdict);
}

}  // namespace svcmap::protocol
