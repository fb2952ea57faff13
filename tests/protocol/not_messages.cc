// Checks that send invalid bytes in a call or instead of HTTP/2.
#include <grpcpp/generic/generic_stub.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
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

}  // namespace svcmap::protocol
