// A fake agent that violates one rule of the protocol, to verify that the checks detect this
// violation. The agent accepts all objects but stores no objects.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::protocol {

enum class Sin { kNone, kSwapsTwoAcks, kTakesRepeatedNumbers, kReadsWithoutEnd };

class SinfulAgent final : public v1::Control::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::PushResponse, v1::PushRequest>;

  SinfulAgent(Sin sin, const std::string& socket_path) : sin_(sin) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~SinfulAgent() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Apply(grpc::ServerContext*, const v1::ApplyRequest*, v1::Ack* ack) override {
    ack->set_outcome(v1::COMMITTED);
    return grpc::Status::OK;
  }
  grpc::Status List(grpc::ServerContext*, const v1::ListRequest*,
                    grpc::ServerWriter<v1::ListResponse>*) override {
    return grpc::Status::OK;
  }
  grpc::Status Push(grpc::ServerContext*, Stream* stream) override;

 private:
  // Queue of responses that the controller has not read yet.
  class Answers {
   public:
    explicit Answers(Stream& stream, size_t limit) : limit_(limit) {
      thread_ = std::thread([this, &stream] { Run(stream); });
    }
    ~Answers();
    // Appends a response. Blocks while the queue is full.
    void Add(const v1::PushResponse& answer);

   private:
    void Run(Stream& stream);

    const size_t limit_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<v1::PushResponse> waiting_;
    bool over_ = false;
    std::thread thread_;
  };

  const Sin sin_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace svcmap::protocol
