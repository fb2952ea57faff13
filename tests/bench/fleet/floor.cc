#include "tests/bench/fleet/floor.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "svcmap/etcd/v3/etcd.pb.h"
#include "tests/bench/program.h"
#include "tests/support/wait.h"

namespace svcmap::bench {
namespace {

constexpr char kFloorAddress[] = "127.0.0.1:2374";
constexpr char kFloorSend[] = "/floor/Send";

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

// Streams exist until the process ends.
class Floor : public grpc::CallbackGenericService {
 public:
  Floor() {
    etcdserverpb::WatchResponse created;
    created.set_created(true);
    created_ = BufferOf(created.SerializeAsString());
  }

 private:
  class Stream : public grpc::ServerGenericBidiReactor {
   public:
    Stream(Floor& floor, bool sends) : floor_(floor), sends_(sends) { StartRead(&request_); }

   private:
    void OnReadDone(bool ok) override {
      if (!ok) return;
      if (sends_) {
        floor_.Broadcast(request_);
        return StartWriteAndFinish(&floor_.created_, {}, grpc::Status::OK);
      }
      {
        const std::lock_guard lock(floor_.mutex_);
        floor_.streams_.push_back(this);
      }
      StartWrite(&floor_.created_);
    }
    void OnDone() override {}

    Floor& floor_;
    const bool sends_;
    grpc::ByteBuffer request_;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Stream(*this, context->method() == kFloorSend);
  }

  // The caller waits until all streams have received the previous message.
  void Broadcast(const grpc::ByteBuffer& message) {
    message_ = message;
    std::vector<Stream*> streams;
    {
      const std::lock_guard lock(mutex_);
      streams = streams_;
    }
    for (Stream* stream : streams) stream->StartWrite(&message_);
  }

  grpc::ByteBuffer created_, message_;
  std::mutex mutex_;
  std::vector<Stream*> streams_;  // Guarded by mutex_.
};

}  // namespace

int RunFloor(const api::TlsFiles& files) {
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!files.certificate.empty()) {
    const api::TlsMaterial tls = Need(api::ReadTlsFiles(files));
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = tls.ca;
    options.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
    credentials = grpc::SslServerCredentials(options);
  }
  Floor floor;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(kFloorAddress, credentials).RegisterCallbackGenericService(&floor);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) Fail(std::string("cannot listen on ") + kFloorAddress);
  std::printf("ready\n");
  std::fflush(stdout);
  server->Wait();
  return 0;
}

FloorServer::FloorServer(const testing::NetNs& netns, const fleet::EtcdServers& etcd,
                         const api::TlsFiles& files)
    : servers_(etcd),
      process_(Need(testing::ChildProcess::Start(
          {.argv = {"/proc/self/exe", "floor", files.certificate, files.key, files.ca},
           .netns = &netns}))) {
  if (!process_->WaitForOutput("ready", testing::kHangLimit)) Fail("floor: " + process_->err());
  servers_.endpoints = {Need(fleet::ParseEndpoint(std::string("http://") + kFloorAddress))};
  connection_ = std::make_unique<fleet::EtcdConnection>(servers_);
  Need(connection_->Connect());
}

void FloorServer::Send(const std::string& message) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  const grpc::ByteBuffer request = BufferOf(message);
  grpc::ByteBuffer answer;
  std::promise<grpc::Status> end;
  grpc::GenericStub stub(connection_->channel());
  stub.UnaryCall(&context, kFloorSend, {}, &request, &answer,
                 [&end](grpc::Status status) { end.set_value(std::move(status)); });
  if (const grpc::Status status = end.get_future().get(); !status.ok()) {
    Fail("floor: " + status.error_message());
  }
}

}  // namespace svcmap::bench
