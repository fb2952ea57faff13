// Calls any method with an empty request, as one who has no stubs would.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

namespace svcmap::testing {

// `method` as "/package.Service/Method"; how the call ended.
inline grpc::Status CallAny(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto done = [&] { return queue.Next(&tag, &ok) && ok; };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  if (done()) {
    call->WriteLast(grpc::ByteBuffer(nullptr, 0), {}, nullptr);
    done();
    do {
      grpc::ByteBuffer answer;
      call->Read(&answer, nullptr);
    } while (done());
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  return status;
}

}  // namespace svcmap::testing
