// Calls any gRPC method with an empty request, without generated stubs.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/support/wait.h"

namespace svcmap::testing {

// Calls `method` ("/package.Service/Method") and returns the status. Cancels a Watch call after its
// first response and then returns OK.
inline grpc::Status CallAny(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kHangLimit);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false, answered = false, watching = false;
  const auto done = [&] { return queue.Next(&tag, &ok) && ok; };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  if (done()) {
    // `protocol_version` of ApplyRequest and RemoveRequest; other requests are empty.
    // AcceptSnapshotRequest without a protocol version returns the same status as with one.
    const bool versioned = method.ends_with("/Apply") || method.ends_with("/Remove");
    const grpc::Slice request(versioned ? "\x18\x02" : "");
    call->WriteLast(grpc::ByteBuffer(&request, 1), {}, nullptr);
    done();
    do {
      grpc::ByteBuffer answer;
      call->Read(&answer, nullptr);
      answered = done();
      watching = answered && method.ends_with("/Watch");
    } while (answered && !watching);
    if (watching) context.TryCancel();
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  return watching ? grpc::Status::OK : status;
}

// Expects that the client `name` can call all reading methods and no other methods.
inline void ExpectReadsOnly(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& name) {
  for (const std::string method : {"List", "GetStatus", "Watch"}) {
    EXPECT_TRUE(CallAny(channel, "/svcmap.v1.Control/" + method).ok()) << method;
  }
  for (const std::string method : {"Push", "Apply", "Remove", "AcceptSnapshot"}) {
    const grpc::Status status = CallAny(channel, "/svcmap.v1.Control/" + method);
    EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED) << method;
    EXPECT_EQ(status.error_message(), "svcmap.v1.Control/" + method + " denied: client " + name +
                                          " may only read; see --allow-write" +
                                          (name.starts_with("uid ") ? "-uid" : "") + " of svcmapd");
  }
}

}  // namespace svcmap::testing
